"""Run Hermes with systemd: it starts at boot or at login, and restarts after a failure."""

import asyncio
import hashlib
import os
import pwd
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from services.cli.command import JSON_OBJECT, Command, Context, action, arg, flag
from services.cli.connection import is_running
from services.cli.console import complain, say
from services.config.settings import load_settings
from services.errors import FailedPrecondition
from services.home.paths import DEFAULT_PROFILE, replace_file

EXAMPLES = """\
examples:
  hermes service install --now          install and start it; as root, for the whole machine
  hermes service install --run-as ada   as root: run it as the user ada, with her home
  hermes service start
  hermes service stop
  hermes service status --json          exit status 1 if it does not run
  hermes service uninstall              remove it and keep the home

Each home and each profile has its own service."""

SYSTEM_UNITS = Path("/etc/systemd/system")
READY_S = 30.0
_PAUSE_S = 0.2
_SHOWN = ("LoadState", "ActiveState", "SubState", "MainPID", "NRestarts", "UnitFileState")

_UNIT = """\
# Written by `hermes service install`, which writes it anew: your own settings belong into
# `systemctl edit {name}`.
[Unit]
Description={meaning}
Wants=network-online.target
After=network-online.target docker.service postgresql.service

[Service]
Type=exec
{user}ExecStart={command}
Restart=on-failure
RestartSec=2
TimeoutStopSec=45
KillMode=mixed
UMask=0077
LimitNOFILE=65536

[Install]
WantedBy={target}
"""
"""Services stop their work in less time than TimeoutStopSec."""


def unit(name: str, meaning: str, argv: Sequence[str], target: str, user: str = "") -> str:
    """Return the unit file; `target` starts the service, `user` runs it."""
    return _UNIT.format(
        name=name,
        meaning=meaning.replace("%", "%%"),
        user=f"User={user}\n" if user else "",
        command=" ".join(map(_quoted, argv)),
        target=target,
    )


class Service:
    """The systemd service of a home and profile, of the system or the user."""

    def __init__(self, context: Context) -> None:
        """Raises FailedPrecondition if its user is missing or cannot be another."""
        self.user: str = context.given.run_as or ""
        if self.user:
            _check_user(self.user)
        usual = Path(f"~{self.user}").expanduser() / ".hermes"
        if self.user and not context.given.home:
            context.given.home = str(usual)
        self.settings = context.settings
        profile = {"profile": DEFAULT_PROFILE}
        self.base = load_settings({**self.settings.flags, **profile}).home.root
        """The home that contains the profile."""
        own = "" if self.base == usual else f"-{hashlib.sha256(bytes(self.base)).hexdigest()[:8]}"
        is_usual = self.settings.profile == DEFAULT_PROFILE
        self.name = f"hermes{own}" if is_usual else f"hermes{own}-{self.settings.profile}"
        """`hermes` for the usual home; other homes and profiles are in the name."""
        self.is_users = os.geteuid() != 0
        units = Path("~/.config/systemd/user").expanduser() if self.is_users else SYSTEM_UNITS
        self.file = units / f"{self.name}.service"
        self.journal = f"journalctl {'--user ' if self.is_users else ''}-u {self.name}"
        """The command that shows its log."""

    def properties(self, *wanted: str) -> Mapping[str, str]:
        """Return systemd properties; raises FailedPrecondition."""
        said = self.tell("show", self.name, f"--property={','.join(wanted)}")
        return dict(line.split("=", 1) for line in said.splitlines() if "=" in line)

    def is_active(self) -> bool:
        """Return whether systemd runs or starts it."""
        return self.properties("ActiveState").get("ActiveState") in ("active", "activating")

    def tell(self, *words: str) -> str:
        """Run systemctl; FailedPrecondition if it fails or is missing."""
        program = shutil.which("systemctl")
        if program is None:
            raise FailedPrecondition(
                "this machine has no systemd; let its service manager run: hermes up --no-chat"
            )
        argv = [program, *(("--user",) if self.is_users else ()), "--no-pager", *words]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            errors = (done.stderr or done.stdout).strip().splitlines() or ["it says nothing"]
            raise FailedPrecondition(f"systemctl {' '.join(argv[1:])} failed: {errors[0]}")
        return done.stdout


def _check_user(name: str) -> None:
    if os.geteuid() != 0:
        raise FailedPrecondition("--run-as needs root; without it you install your own service")
    try:
        pwd.getpwnam(name)
    except KeyError:
        raise FailedPrecondition(f"this machine has no user {name}") from None


def _installed(context: Context) -> Service:
    service = Service(context)
    if not service.file.exists():
        raise FailedPrecondition(
            f"{service.name} is not installed; install it with: hermes service install"
        )
    return service


def _install(context: Context) -> None:
    """Install the service, which then starts at boot."""
    service = Service(context)
    settings = service.settings
    program = Path(sys.argv[0]).absolute()
    argv = [str(program), "up", "--no-chat", "--home", str(service.base)]
    argv += ["--profile", settings.profile] if settings.profile != DEFAULT_PROFILE else []
    meaning = f"Hermes, a personal AI agent ({settings.home.root})"
    target = "default.target" if service.is_users else "multi-user.target"
    service.tell("show", "--property=Version")
    service.file.parent.mkdir(parents=True, exist_ok=True)
    text = unit(service.name, meaning, argv, target, service.user)
    replace_file(service.file, text, 0o644)
    service.tell("daemon-reload")
    service.tell("enable", service.name)
    when = "when you log in" if service.is_users else "at boot"
    say(f"installed {service.file}; it starts {when}")
    if service.is_users:
        complain("it stops when you log out; to keep it running: loginctl enable-linger")
    if context.given.now:
        _start(context)


def _start(context: Context) -> None:
    """Start the service, and wait until it is ready."""
    service = _installed(context)
    if service.is_active():
        say(f"{service.name} is already running")
        return
    settings = service.settings
    if asyncio.run(is_running(settings)):
        raise FailedPrecondition(
            f"hermes already runs in {settings.home.root} without systemd; stop it first"
        )
    service.tell("start", service.name)
    until = time.monotonic() + READY_S
    while not asyncio.run(is_running(settings)):
        if not service.is_active() or time.monotonic() > until:
            raise FailedPrecondition(
                f"{service.name} was started but is not ready; see its log with: {service.journal}"
            )
        time.sleep(_PAUSE_S)
    say(f"{service.name} is running; open a chat with: hermes chat")


def _stop(context: Context) -> None:
    """Stop the service; its work continues at the next start."""
    service = _installed(context)
    service.tell("stop", service.name)
    say(f"stopped {service.name}")


def _uninstall(context: Context) -> None:
    """Stop and remove the service."""
    service = _installed(context)
    service.tell("disable", "--now", service.name)
    service.file.unlink()
    service.tell("daemon-reload")
    say(f"removed {service.name}; the home {service.settings.home.root} stays")


def _status(context: Context) -> int:
    """Show whether the service runs."""
    service = Service(context)
    found = service.properties(*_SHOWN)
    is_installed, state = found.get("LoadState") == "loaded", found.get("ActiveState", "unknown")
    described = {
        "service": service.name,
        "installed": is_installed,
        "enabled": found.get("UnitFileState") == "enabled",
        "state": state,
        "pid": int(found.get("MainPID", "0")) or None,
        "restarts": int(found.get("NRestarts", "0")),
    }
    if not is_installed:
        sentence = "is not installed; install it with: hermes service install"
    elif state == "active":
        sentence = f"runs as process {described['pid']} ({described['restarts']} restarts)"
    else:
        sentence = f"is {state} ({found['SubState']}); see its log with: {service.journal}"
    context.print_value(described, f"{service.name} {sentence}")
    return 0 if is_installed and state == "active" else 1


_RUN_AS = arg("--run-as USER", "user that the service was installed for")
_WHOSE = arg("--run-as USER", "run the service as this user; needs root")
COMMAND = Command(
    EXAMPLES,
    actions=(
        action(_install, flag("--now", "also start it"), _WHOSE),
        action(_start, _RUN_AS),
        action(_stop, _RUN_AS),
        action(_status, JSON_OBJECT, _RUN_AS),
        action(_uninstall, _RUN_AS),
    ),
)


def _quoted(word: str) -> str:
    """Quote a word for systemd, without its variables and specifiers."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{escaped}"'
