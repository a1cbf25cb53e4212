"""Imports point one way: generated code, the chassis, a service; app, servicer, core, seams."""

import ast
import sys
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter

from tests.architecture.source import (
    SERVICES,
    Module,
    assert_clean,
    assert_refuses,
    dotted,
    product,
    sample,
    suite,
    within,
)

IMPORTED_LATE = (
    "PIL",
    "aiohttp",
    "aioimaplib",
    "aiosmtplib",
    "alembic",
    "apscheduler",
    "av",
    "cryptography",
    "ctypes",
    "discord",
    "docker",
    "dotenv",
    "elevenlabs",
    "fal_client",
    "faster_whisper",
    "grpc_reflection",
    "grpclib",
    "honcho",
    "httpx",
    "httpx2",
    "kubernetes",
    "modal",
    "modal_proto",
    "markdown_it",
    "mcp",
    "mcp_types",
    "nio",
    "openai",
    "openpyxl",
    "opentelemetry",
    "paramiko",
    "piper",
    "playwright",
    "prompt_toolkit",
    "psycopg",
    "pyarrow",
    "pypdf",
    "rich",
    "ruamel",
    "shtab",
    "slack_sdk",
    "sqlalchemy",
    "tarfile",
    "tokenizers",
    "telegram",
    "trafilatura",
    "urllib3",
    "websockets",
    "yarl",
)
"""Packages that are slow or large to import, so that whoever needs one may import it then."""

CHOSEN = ("executor_service.backends",)
"""Packages of ours of which an installation chooses one part: the rest is not imported for it."""

SLOW = (
    "agent_service.tools.mcp.connection",
    "agent_service.tools.mcp.request_handlers",
    "agent_service.tools.mcp.oauth",
    "agent_service.tools.mcp.results",
    "agent_service.tools.mcp.transports",
    "executor_service.supervisor.proxy",
    "executor_service.supervisor.transfers",
    "gateway_service.servicer.http.listener",
    "gateway_service.servicer.mcp.server",
    "gateway_service.servicer.mcp.tools",
    "services.cli.chat.renderer",
)
"""Modules of ours that stand on such packages, and are imported as late."""

BESIDE_THE_WIRE = ("servicer", "clients", "commands", "presenter", "prompt_replies", "questions")
"""The last three show people what other services say, and pass on what people answer."""
WIRE = ("hermes", "google", "grpc_status")
SUPERVISOR = "executor_service.supervisor"


def foreign_services(module: Module) -> Iterator[str]:
    """The chassis knows no service, a service no other one, and nobody the tests."""
    own = module.name.partition(".")[0]
    for node, name in module.imports:
        if within(name, "tests", *SERVICES) and not within(name, own):
            yield module.at(node, f"{own} imports {name}")


def upward(module: Module) -> Iterator[str]:
    """Nobody imports an app, only the app its servicer, and the chassis not the command line."""
    own, _, inside = module.name.partition(".")
    layer = inside.partition(".")[0]
    above = {"app": [], "servicer": ["app"], "cli": ["app", "servicer"]}
    hidden = [f"{own}.{name}" for name in above.get(layer, ["app", "servicer", "cli"])]
    for node, name in module.imports:
        if within(name, *hidden) and not within(name, f"{own}.{layer}"):
            yield module.at(node, f"{module.name} imports {name}, which stands above it")


def late_imports(module: Module) -> Iterator[str]:
    for node, name in module.imports:
        chooses = module.name in CHOSEN and within(name, *CHOSEN)
        if module.in_function(node) and not chooses and not within(name, *IMPORTED_LATE, *SLOW):
            yield module.at(node, f"{name} is imported inside a function")
    for node in module.find(ast.Call):
        by_name = dotted(node.func).rpartition(".")[2] in {"import_module", "__import__"}
        if by_name and not within(module.name, "services.cli"):
            yield module.at(node, "only the command line imports by name")


def wire_types(module: Module) -> Iterator[str]:
    """Messages stay in the modules that talk gRPC; the rest of a service has its own types."""
    own, _, inside = module.name.partition(".")
    if own not in SERVICES or not {*BESIDE_THE_WIRE}.isdisjoint(inside.split(".")):
        return
    for node, name in module.imports:
        if within(name, *WIRE):
            yield module.at(node, f"{name} belongs in {', '.join(BESIDE_THE_WIRE)}")


def parts_of_the_host(module: Module) -> Iterator[str]:
    """The supervisor runs in the box, where only an older Python's standard library is."""
    if not within(module.name, SUPERVISOR):
        return
    for node, name in module.imports:
        if not within(name, SUPERVISOR, *sys.stdlib_module_names, "_sha2"):
            yield module.at(node, f"{name} is not in the box")
    try:
        ast.parse(module.text, feature_version=(3, 8))
    except SyntaxError as error:
        yield f"{module.path}:{error.lineno}: not Python 3.8: {error.msg}"


def scans(module: Module) -> Iterator[str]:
    """What there is stands in a table that one can read; nothing registers or finds itself."""
    finders = ("iter_modules", "walk_packages", "__subclasses__", "entry_points")
    for node in module.find(ast.Attribute):
        if node.attr in finders:
            yield module.at(node, f"{node.attr} finds what nobody listed")
    for node in module.functions():
        if node.name == "__init_subclass__":
            yield module.at(node, "a subclass registers itself")


def cycle(modules: tuple[Module, ...]) -> list[str]:
    """Return the modules of one cycle of imports, imports for types only included."""
    names = {module.name for module in modules}

    def imported(module: Module) -> set[str]:
        targets = (name if name in names else name.rpartition(".")[0] for _, name in module.imports)
        return {target for target in targets if target in names and target != module.name}

    try:
        TopologicalSorter({module.name: imported(module) for module in modules}).prepare()
    except CycleError as error:
        return error.args[1]
    return []


def test_services_meet_only_on_the_wire() -> None:
    assert_clean(foreign_services, product())
    assert_refuses(foreign_services, sample("from executor_service import pool"))


def test_nobody_imports_what_stands_above() -> None:
    assert_clean(upward, product())
    assert_refuses(upward, sample("from agent_service import app", "agent_service/servicer.py"))


def test_late_imports_are_listed() -> None:
    assert_clean(late_imports, product())
    assert_refuses(late_imports, sample("def f():\n    import json"))


def test_messages_stay_beside_the_wire() -> None:
    assert_clean(wire_types, product())
    assert_refuses(wire_types, sample("from hermes.agent.v1 import turn_pb2"))
    clients = sample("import hermes.executor.v1.exec_pb2", "agent_service/clients/executor.py")
    assert not list(wire_types(clients))


def test_the_supervisor_needs_nothing_but_python() -> None:
    assert_clean(parts_of_the_host, product())
    assert_refuses(parts_of_the_host, sample("import grpc", "executor_service/supervisor/main.py"))


def test_nothing_finds_itself() -> None:
    assert_clean(scans, (*product(), *suite()))
    assert_refuses(scans, sample("import pkgutil\npkgutil.iter_modules()"))


def test_imports_have_no_cycle() -> None:
    assert cycle(product()) == []
    assert cycle(
        (
            sample("from agent_service import b", "agent_service/a.py"),
            sample("from agent_service.a import x", "agent_service/b.py"),
        )
    )


def test_relative_imports_are_resolved() -> None:
    text = "from . import a\nfrom .b import c\nfrom ..d import e\nimport f.g"
    names = {name for _, name in sample(text, "agent_service/tools/files.py").imports}
    assert names == {"agent_service.tools.a", "agent_service.tools.b.c", "agent_service.d.e", "f.g"}
    inside = sample("from . import a", "agent_service/tools/__init__.py")
    assert [name for _, name in inside.imports] == ["agent_service.tools.a"]
