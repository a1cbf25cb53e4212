"""Systemd as a person on this machine uses it: the file of a unit, and systemctl."""

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from services.errors import FailedPrecondition

SYSTEM_UNITS = Path("/etc/systemd/system")
USER_UNITS = Path(".config/systemd/user")
"""In the home folder of the user."""

_TIMEOUT_S = 90.0


class Unit(Struct, frozen=True):
    """A service that systemd runs."""

    name: str
    meaning: str
    argv: Sequence[str]
    stop_timeout_s: int
    user: str = ""
    """Who it runs as; empty is whoever's manager runs it."""

    def text(self, target: str) -> str:
        """What its file says; `target` is what it is started with."""
        user = f"User={self.user}\n" if self.user else ""
        command = " ".join(map(_quoted, self.argv))
        return f"""\
# Written by `hermes service install`, which writes it anew: your own settings belong into
# `systemctl edit {self.name}`.
[Unit]
Description={self.meaning.replace("%", "%%")}
Wants=network-online.target
After=network-online.target docker.service postgresql.service

[Service]
Type=exec
{user}ExecStart={command}
Restart=on-failure
RestartSec=2
TimeoutStopSec={self.stop_timeout_s}
KillMode=mixed
UMask=0077
LimitNOFILE=65536

[Install]
WantedBy={target}
"""


class Systemd(Struct, frozen=True):
    """The manager of services: the machine's, or the user's own."""

    units: Path
    is_users: bool

    @property
    def target(self) -> str:
        """What its services are started with."""
        return "default.target" if self.is_users else "multi-user.target"

    @property
    def command(self) -> str:
        """How a person runs systemctl."""
        return "systemctl --user" if self.is_users else "systemctl"

    def file(self, name: str) -> Path:
        """Where the unit of a service is."""
        return self.units / f"{name}.service"

    def properties(self, name: str, *wanted: str) -> Mapping[str, str]:
        """What it knows of a service; raises FailedPrecondition."""
        said = self.tell("show", name, f"--property={','.join(wanted)}")
        return dict(line.split("=", 1) for line in said.splitlines() if "=" in line)

    def tell(self, *words: str) -> str:
        """Run systemctl; raises FailedPrecondition where it fails, or there is none."""
        program = shutil.which("systemctl")
        if program is None:
            raise FailedPrecondition(
                "this machine has no systemd; have whatever starts services here run: "
                "hermes up --no-chat"
            )
        scope = ("--user",) if self.is_users else ()
        argv = (program, *scope, "--no-pager", *words)
        try:
            done = subprocess.run(
                argv, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
            )
        except subprocess.TimeoutExpired:
            raise FailedPrecondition(
                f"{self.command} {words[0]} has not ended after {_TIMEOUT_S:.0f} s"
            ) from None
        if done.returncode != 0:
            said = (done.stderr or done.stdout).strip().splitlines() or ["it says nothing"]
            raise FailedPrecondition(f"{self.command} {' '.join(words)} failed: {said[0]}")
        return done.stdout


def _quoted(word: str) -> str:
    """A word of a command line as systemd reads it, without its variables and specifiers."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{escaped}"'
