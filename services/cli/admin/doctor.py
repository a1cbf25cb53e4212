"""Check this machine, and show how to fix problems."""

import asyncio
import platform
import sqlite3
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path

from msgspec.structs import replace
from rich.console import Console
from rich.text import Text
from sqlalchemy import make_url

from hermes.executor.v1 import sandbox_pb2
from services.cli import process
from services.cli.admin.cluster_checks import called_from_here, cluster_checks
from services.cli.admin.database import SCHEMAS
from services.cli.command import JSON_LIST, Command, Context, flag
from services.cli.connection import at_home, elsewhere, is_running, start_command, unanswered
from services.cli.console import wrap
from services.cli.failures import EXPECTED, explain
from services.cli.output import enum_word, print_json
from services.cli.sandboxes.executors import executors
from services.cli.startup import catalog, imported, run_in_home
from services.config.catalog import check_settings
from services.config.settings import ConfigError, Settings, load_settings
from services.database import Database
from services.errors import HermesError
from services.home.files import explain_providers, memory_providers
from services.runtime.checks import Check, Verdict
from services.runtime.config import ServiceConfig

EXAMPLES = """\
examples:
  hermes doctor
  hermes doctor --json          exit status 1 if a check fails
  kubectl --namespace hermes exec deploy/hermes-agent -- hermes doctor --cluster"""

CHECKS = {
    "agent": "agent_service.assembly.checks:checks",
    "gateway": "gateway_service.accounts.checks:checks",
}
"""Each service's own checks, to be run where the service runs."""

BACKENDS = "executor_service.servicer.checks:checks"
"""Tries the backends that no running executor reports."""

_INDENT = 17
_MARKS = {
    Verdict.OK: ("✓", "green"),
    Verdict.NOTE: ("!", "yellow"),
    Verdict.OFF: ("·", "dim"),
    Verdict.FAILED: ("✗", "red"),
}


def _check(context: Context) -> int:
    """Check everything; the exit status is 1 when something has failed."""
    found = [Check("python", Verdict.OK, f"{platform.python_version()} on {sys.platform}")]
    try:
        settings = load_settings(vars(context.given))
        found += _config(settings)
        inside = context.given.cluster
        found += run_in_home(settings, lambda: _parts(settings, from_inside=inside))
    except HermesError as error:
        name = "config" if isinstance(error, ConfigError) else "home"
        found = [Check(name, Verdict.FAILED, str(error))]
    if context.given.json:
        print_json([{"check": c.name, "verdict": c.verdict, "message": c.message} for c in found])
    else:
        _show(found)
    return 1 if any(check.verdict is Verdict.FAILED for check in found) else 0


def _show(found: list[Check]) -> None:
    console = Console()
    for check in found:
        mark, style = _MARKS[check.verdict]
        indented = check.message.replace("\n", "\n" + " " * _INDENT)
        shown = wrap(f"{mark} {check.name:<14} {indented}", sys.stdout)
        line = Text(shown[:_INDENT], style=style).append(shown[_INDENT:], style="default")
        console.print(line, highlight=False, soft_wrap=True)


def _config(settings: Settings) -> list[Check]:
    notices = [*settings.not_on_host(), *check_settings(settings, catalog())]
    found = [Check("config", Verdict.NOTE, notice) for notice in notices]
    found = found or [Check("config", Verdict.OK, f"home {settings.home.root}")]
    if providers := memory_providers(settings.home.root):
        found.append(Check("plugins", Verdict.OFF, explain_providers(providers)))
    return found


async def _databases(settings: Settings) -> list[Check]:
    """Check the databases of the services that run here, shared ones once."""
    config = settings.load(ServiceConfig).database
    users = {config.url_of(name, settings.home): name for name in at_home(settings, tuple(SCHEMAS))}
    found = list[Check]()
    for url, service in users.items():
        parsed = make_url(url)
        try:
            database = Database(url, service)
            if database.dialect == "postgresql":
                async with database:
                    shown = parsed.render_as_string(hide_password=True)
                    found.append(Check("database", Verdict.OK, shown))
            else:
                found += await asyncio.to_thread(_file, Path(parsed.database or ""))
        except HermesError as error:
            found.append(Check("database", Verdict.FAILED, str(error)))
    return found


def _file(path: Path) -> list[Check]:
    if not path.exists():
        return []  # created on first use
    try:
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
            result = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    except sqlite3.Error as error:
        result = str(error)
    if result == "ok":
        return [Check("database", Verdict.OK, str(path))]
    what = f"{path} is damaged ({result}); stop hermes and restore it from a backup, "
    return [Check("database", Verdict.FAILED, f"{what}or move it away to start again")]


async def _parts(settings: Settings, *, from_inside: bool) -> list[Check]:
    asked = called_from_here(settings) if from_inside else process.ALL
    found = await _databases(settings)
    for service in at_home(settings, tuple(CHECKS)):
        found += await imported(CHECKS[service])(settings)
    try:
        silent = await unanswered(settings, elsewhere(settings, asked))
    except EXPECTED as error:
        found.append(Check("services", Verdict.FAILED, explain(error)))
        silent = dict.fromkeys(asked, "")
    else:
        if "executor" in asked and "executor" not in silent:
            found += await _sandboxes(settings)
        found += await _services(settings, asked, silent)
    return [*found, *await cluster_checks(settings, silent)] if from_inside else found


async def _services(
    settings: Settings, asked: Sequence[str], silent: Mapping[str, str]
) -> list[Check]:
    """Check remote services one by one, and those of the home together."""
    found = [
        Check("services", Verdict.FAILED, silent[name])
        if name in silent
        else Check("services", Verdict.OK, f"{name} answers at {address}")
        for name, address in elsewhere(settings, asked).items()
    ]
    if not at_home(settings, asked):
        return found
    if await is_running(settings):
        return [*found, Check("services", Verdict.OK, "running")]
    how = f"not running; start it with: {start_command(settings)}"
    return [*found, Check("services", Verdict.NOTE, how)]


async def _sandboxes(settings: Settings) -> list[Check]:
    """Return the executors' reports on their backends, and checks of this machine's others."""
    found, told = list[Check](), list[str]()
    try:
        async with executors(settings, start=True) as deployment:
            for one in deployment.each:
                where = f"{one.endpoint}: " if deployment.are_several else ""
                found += _capability_checks(one.capabilities, where)
                told += [backend.name for backend in one.capabilities.backends]
            for name, instead in deployment.silent.items():
                message = (
                    f"the executor at {name} {instead}; start it there with: hermes serve executor"
                )
                found.append(Check("sandbox", Verdict.FAILED, message))
    except EXPECTED as error:
        found = [Check("sandbox", Verdict.FAILED, explain(error))]
    if not at_home(settings, ("executor",)):
        return found
    return [*found, *await imported(BACKENDS)(settings, told)]


def _capability_checks(answer: sandbox_pb2.GetCapabilitiesResponse, where: str) -> list[Check]:
    found = [_backend(backend) for backend in answer.backends]
    if answer.draining:
        drained = "drained: it accepts no new sessions; undo it with: hermes pools undrain"
        found.append(Check("sandbox", Verdict.NOTE, drained))
    return [replace(check, message=f"{where}{check.message}") for check in found]


def _backend(backend: sandbox_pb2.BackendCapabilities) -> Check:
    level = enum_word(sandbox_pb2.IsolationLevel, backend.isolation)
    is_usual = backend.template in ("", "default")
    name = backend.name if is_usual else f"template {backend.template}: {backend.name}"
    if not backend.available:
        # Requests for its template fail.
        verdict = Verdict.FAILED if backend.template else Verdict.NOTE
        return Check("sandbox", verdict, f"{name.removesuffix(': ')}: {backend.detail}")
    chosen = f" — used: {backend.choice_reason}" if backend.choice_reason else ""
    detail = f" ({backend.detail})" if backend.detail else ""
    return Check("sandbox", Verdict.OK, f"{name}, isolation {level}{chosen}{detail}")


COMMAND = Command(
    EXAMPLES,
    function=_check,
    arguments=(
        JSON_LIST,
        flag("--cluster", "check a deployment from inside one of its pods or containers"),
    ),
    defaults={"prefill": False, "keep_on_exit": False},
)
