"""The first steps of every command: reading settings and reporting their problems."""

import argparse
import asyncio
import importlib
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from services.cli.console import complain
from services.config.catalog import ConfigCatalog, check_settings
from services.config.edit import set_value
from services.config.settings import Settings, load_settings
from services.home.paths import DEFAULT_PROFILE
from services.runtime.config import MODELS, ServiceConfig
from services.telemetry.logs import logging_to

_T = TypeVar("_T")

MODEL_MODULES = (
    "agent_service.config",
    "executor_service.config",
    "gateway_service.config",
    "scheduler_service.config",
)
"""Modules with the services' `MODELS`."""


def imported(name: str) -> Any:
    """Import `module:function`."""
    module, _, attribute = name.partition(":")
    return getattr(importlib.import_module(module), attribute)


def catalog() -> ConfigCatalog:
    """Return all settings that exist."""
    models = list(MODELS)
    for name in MODEL_MODULES:
        models += imported(f"{name}:MODELS")
    return ConfigCatalog(models)


def load(arguments: argparse.Namespace) -> Settings:
    """Return the checked settings; prints warnings, raises errors."""
    settings = load_settings(vars(arguments))
    if settings.home.name != DEFAULT_PROFILE:
        # HERMES_PROFILE has the effect of --profile, also on requests.
        arguments.profile = settings.profile
    for notice in check_settings(settings, catalog()):
        complain(notice)
    return settings


@contextmanager
def logged(settings: Settings, service: str, file: Path | None = None) -> Generator[None]:
    """Write the process's redacted log while inside."""
    config = settings.load(ServiceConfig).log
    with logging_to(config, settings.redactor(), service=service, file=file):
        yield


def run_in_home(settings: Settings, work: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
    """Run work in the home, which is created and gets the log."""
    settings.home.create()
    with logged(settings, "hermes", settings.home.logs / "hermes.log"):
        return asyncio.run(work())


def keep(settings: Settings, key: str, value: str) -> Path:
    """Save a person's choice; return the file."""
    path = set_value(settings.home, key, value, catalog().models)
    beside = f"{key.rpartition('.')[0]}.api_key"
    url, own = settings.yaml.find(key), settings.yaml.find(beside)
    if key.endswith(".base_url") and own and url and url.value != value:
        complain(f"removed {beside} ({own.where}), the key of the endpoint before")
    return path
