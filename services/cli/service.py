"""Let systemd keep Hermes running on this machine: from the boot on, and again when it fails."""

import argparse
import asyncio
import hashlib
import os
import pwd
import sys
import time
from pathlib import Path

from services.cli.arguments import Actions
from services.cli.connection import is_running
from services.cli.console import complain, print_json, say
from services.cli.startup import load
from services.cli.systemd import SYSTEM_UNITS, USER_UNITS, Systemd, Unit
from services.config import Settings, load_settings
from services.errors import FailedPrecondition
from services.home import DEFAULT_PROFILE, replace_file

EXAMPLES = """\
examples:
  hermes service install --now          keep Hermes running for you; as root, for the machine
  hermes service install --run-as ada   as root: with the home of ada, and her rights
  hermes service start
  hermes service stop
  hermes service status --json          exit status 1 where it does not run
  hermes service uninstall              the home stays as it is

Each home and each profile has a service of its own."""

STOP_TIMEOUT_S = 45
"""Longer than the services take at most to let go of what they do."""
READY_S = 30.0
_PAUSE_S = 0.2
_SHOWN = ("LoadState", "ActiveState", "SubState", "MainPID", "NRestarts", "UnitFileState")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `hermes service`."""
    actions = Actions(parser, "install|start|stop|status|uninstall")
    install = actions.add("install", "write the service, and have it started with the machine")
    install.add_argument("--now", action="store_true", help="start it as well")
    install.add_argument("--run-as", metavar="USER", help="whose home and rights it has, for root")
    start = actions.add("start", "start it, and wait until it is ready")
    stop = actions.add("stop", "stop it; what it does goes on with the next start")
    status = actions.add("status", "say whether it runs")
    status.add_argument("--json", action="store_true", help="one JSON object")
    uninstall = actions.add("uninstall", "stop it, and remove the service")
    for action in (start, stop, status, uninstall):
        action.add_argument("--run-as", metavar="USER", help="the user of its installation")


def run(arguments: argparse.Namespace) -> int:
    """Does what the action says."""
    user = _checked_user(arguments)
    if user and not arguments.home:
        arguments.home = str(Path(f"~{user}").expanduser() / ".hermes")
    settings, systemd = load(arguments), _manager()
    name = _name(settings, user)
    match arguments.action:
        case "install":
            return _install(arguments, settings, systemd, name)
        case "start":
            return _start(settings, systemd, name)
        case "stop":
            _need_installed(systemd, name)
            systemd.tell("stop", name)
            say(f"{name} is stopped")
        case "uninstall":
            _need_installed(systemd, name)
            systemd.tell("disable", "--now", name)
            systemd.file(name).unlink()
            systemd.tell("daemon-reload")
            say(f"{name} is removed; its home {settings.home.root} is as it was")
        case _:
            return _status(systemd, name, as_json=arguments.json)
    return 0


def _checked_user(arguments: argparse.Namespace) -> str:
    if not arguments.run_as:
        return ""
    if os.geteuid() != 0:
        raise FailedPrecondition("--run-as is for root; without it the service is your own")
    try:
        pwd.getpwnam(arguments.run_as)
    except KeyError:
        raise FailedPrecondition(f"this machine has no user {arguments.run_as}") from None
    return arguments.run_as


def _manager() -> Systemd:
    if os.geteuid() == 0:
        return Systemd(SYSTEM_UNITS, is_users=False)
    return Systemd(Path.home() / USER_UNITS, is_users=True)


def _name(settings: Settings, user: str) -> str:
    """`hermes` for the usual home; others are told apart by their profile, or by where they are."""
    usual = Path(f"~{user}").expanduser() / ".hermes"
    base = _base(settings)
    name = "hermes" if base == usual else f"hermes-{hashlib.sha256(bytes(base)).hexdigest()[:8]}"
    return name if settings.profile == DEFAULT_PROFILE else f"{name}-{settings.profile}"


def _base(settings: Settings) -> Path:
    """The home that the profile is in."""
    return load_settings({**settings.flags, "profile": DEFAULT_PROFILE}).home.root


def _install(arguments: argparse.Namespace, settings: Settings, systemd: Systemd, name: str) -> int:
    program = Path(sys.argv[0]).absolute()
    argv = [str(program), "up", "--no-chat", "--home", str(_base(settings))]
    argv += ["--profile", settings.profile] if settings.profile != DEFAULT_PROFILE else []
    meaning = f"Hermes, a personal AI agent ({settings.home.root})"
    unit = Unit(name, meaning, argv, STOP_TIMEOUT_S, arguments.run_as or "")
    systemd.tell("show", "--property=Version")
    systemd.units.mkdir(parents=True, exist_ok=True)
    replace_file(systemd.file(name), unit.text(systemd.target), 0o644)
    systemd.tell("daemon-reload")
    systemd.tell("enable", name)
    say(f"{systemd.file(name)} is written, and starts with the {_when(systemd)}")
    if systemd.is_users:
        complain("it ends when you log out, unless you once do: loginctl enable-linger")
    return _start(settings, systemd, name) if arguments.now else 0


def _when(systemd: Systemd) -> str:
    return "first of your sessions" if systemd.is_users else "machine"


def _start(settings: Settings, systemd: Systemd, name: str) -> int:
    _need_installed(systemd, name)
    if _is_active(systemd, name):
        say(f"{name} runs already")
        return 0
    if asyncio.run(is_running(settings)):
        raise FailedPrecondition(
            f"hermes runs in {settings.home.root} without systemd; stop that one first"
        )
    systemd.tell("start", name)
    until = time.monotonic() + READY_S
    while not asyncio.run(is_running(settings)):
        if not _is_active(systemd, name) or time.monotonic() > until:
            raise FailedPrecondition(
                f"{name} was started and is not ready; what it says: {_journal(systemd, name)}"
            )
        time.sleep(_PAUSE_S)
    say(f"{name} runs; talk to it with: hermes chat")
    return 0


def _status(systemd: Systemd, name: str, *, as_json: bool) -> int:
    found = systemd.properties(name, *_SHOWN)
    is_installed, state = found.get("LoadState") == "loaded", found.get("ActiveState", "unknown")
    if as_json:
        print_json(
            {
                "service": name,
                "installed": is_installed,
                "enabled": found.get("UnitFileState") == "enabled",
                "state": state,
                "pid": int(found.get("MainPID", "0")) or None,
                "restarts": int(found.get("NRestarts", "0")),
            }
        )
    elif not is_installed:
        say(f"{name} is not installed; install it with: hermes service install")
    elif state == "active":
        say(f"{name} runs as process {found['MainPID']}, after {found['NRestarts']} restarts")
    else:
        say(f"{name} is {state} ({found['SubState']}); what it said: {_journal(systemd, name)}")
    return 0 if is_installed and state == "active" else 1


def _need_installed(systemd: Systemd, name: str) -> None:
    if not systemd.file(name).exists():
        raise FailedPrecondition(
            f"{name} is not installed; install it with: hermes service install"
        )


def _is_active(systemd: Systemd, name: str) -> bool:
    return systemd.properties(name, "ActiveState").get("ActiveState") in ("active", "activating")


def _journal(systemd: Systemd, name: str) -> str:
    return f"journalctl {'--user ' if systemd.is_users else ''}-u {name}"
