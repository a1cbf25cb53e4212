"""What each service's image gets is what the service imports, and all is somebody's."""

import subprocess
import sys
import tomllib
from collections import defaultdict
from functools import cache
from importlib.metadata import packages_distributions

from tests.architecture.source import ROOT, product

SERVICES = ("agent", "executor", "gateway", "scheduler")
BROUGHT = {
    "acp": "agent-client-protocol",
    "anyio": "openai",
    "google": "protobuf",
    "grpc_status": "grpcio-status",
    "grpclib": "modal",
    "markdown_it": "rich",
    "mcp_types": "mcp",
    "modal_proto": "modal",
    "opentelemetry": "opentelemetry-api",
    "pydantic_core": "pydantic",
    "yarl": "aiohttp",
}
"""Packages that come with something that is required."""
OF_DATABASES = {"alembic", "psycopg"}
"""What the chassis imports for services with a database; the executor has none."""
OPTIONAL = {"av", "faster-whisper", "piper-tts", "pyarrow", "tokenizers"}
"""What only those install who want speech without a provider or data sets; no image has it."""
NOT_IN_IMAGES = {"all", "atropos", "local-speech", "research", "test"}
OF_THE_DEMO = {"aiohttp"}
"""What `hermes demo` serves its model with, which no image of one service runs."""
OF_CHATS = {"agent-client-protocol", "prompt-toolkit"}
"""What it imports for whoever talks, in the gateway's image."""


@cache
def required(service: str) -> set[str]:
    """The names of what a service's image gets."""
    said = subprocess.run(
        [sys.executable, ROOT / "docker" / "service-requirements", service],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    return {_name(line) for line in said.splitlines()}


def _name(requirement: str) -> str:
    for end in "[<>=;~! ":
        requirement = requirement.partition(end)[0]
    return requirement.lower().replace("_", "-")


def test_each_service_gets_what_it_imports() -> None:
    offered, imported = packages_distributions(), defaultdict[str, set[str]](set)
    for module in product():
        if "skills.bundled" not in module.name:
            names = {name.partition(".")[0] for _, name in module.imports}
            imported[module.name.partition(".")[0]] |= names - sys.stdlib_module_names
    for service in SERVICES:
        names = (imported["services"] | imported[f"{service}_service"]) & offered.keys()
        found = {BROUGHT.get(each, _name(offered[each][0])) for each in names}
        found -= {"hermes-services"} | OPTIONAL | (OF_DATABASES if service == "executor" else set())
        found -= set() if service == "gateway" else OF_CHATS
        found -= set() if service in ("agent", "gateway") else OF_THE_DEMO
        assert found <= required(service), service


def test_nothing_that_hermes_needs_is_left_out() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = set(project["dependencies"])
    for extra, more in project["optional-dependencies"].items():
        wanted |= set() if extra in NOT_IN_IMAGES else set(more)
    images = set[str]().union(*(required(service) for service in SERVICES))
    assert {_name(line) for line in wanted} == images
