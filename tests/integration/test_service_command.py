"""The service of systemd: what its unit says, what systemctl is told, what a person is told."""

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec import Struct

from services.cli.admin.service import unit
from tests.support.requirements import require

HERMES = Path(sys.executable).with_name("hermes")
ODD = '/srv/50%/"a"$b\\c d'
SYSTEMCTL = """\
#!/bin/sh
# As systemctl is called; what it answers is in files beside it.
here=$(dirname "$0")
echo "$@" >>"$here/told"
case "$*" in
  *"show hermes"*) cat "$here/shown" ;;
  *start*|*daemon-reload*) [ ! -e "$here/refuses" ] || { cat "$here/refuses" >&2; exit 1; } ;;
esac
"""
SHOWN = (
    "LoadState=loaded\nActiveState={}\nSubState=running\nMainPID=77\nNRestarts=2\n"
    "UnitFileState=enabled\n"
)


class Machine(Struct, frozen=True):
    """A user's folder, and a systemctl that notes what it is told."""

    folder: Path

    def systemd_is(self, state: str) -> None:
        (self.folder / "bin" / "shown").write_text(SHOWN.format(state))

    def hermes(
        self, *arguments: str, path: str = ":/usr/bin:/bin"
    ) -> "subprocess.CompletedProcess[str]":
        environ = {"HOME": str(self.folder), "PATH": f"{self.folder / 'bin'}{path}"}
        command = [HERMES, "service", *arguments]
        return subprocess.run(command, env=environ, capture_output=True, text=True, check=False)

    @property
    def told(self) -> Sequence[str]:
        return (self.folder / "bin" / "told").read_text().splitlines()


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    made = Machine(tmp_path)
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "systemctl"
    program.write_text(SYSTEMCTL)
    program.chmod(0o755)
    made.systemd_is("inactive")
    return made


@pytest.mark.parametrize(
    ("user", "target"), [("", "default.target"), ("daemon", "multi-user.target")]
)
def test_the_unit_is_one_that_systemd_understands(tmp_path: Path, user: str, target: str) -> None:
    program = shutil.which("systemd-analyze")
    require("systemd", program is not None, "there is no systemd-analyze")
    argv = (str(HERMES), "up", "--home", ODD)
    text = unit("hermes", "Hermes (50%)", argv, target, user)
    file = tmp_path / "hermes.service"
    file.write_text(text)
    told = subprocess.run(
        [str(program), "verify", "--man=no", file], capture_output=True, text=True, check=False
    )
    assert (told.returncode, told.stderr) == (0, "")
    assert ("User=daemon" in text) == bool(user)


def test_words_of_the_command_are_taken_as_they_are() -> None:
    (line,) = [
        line
        for line in unit("hermes", "", ("hermes", ODD), "default.target").splitlines()
        if line.startswith("ExecStart=")
    ]
    # `%%` and `$$` are how systemd writes them; the rest is quoted as shells do.
    word = shlex.split(line.removeprefix("ExecStart="))[1]
    assert word.replace("%%", "%").replace("$$", "$") == ODD


def test_root_installs_for_a_user_of_the_machine(machine: Machine) -> None:
    require("root", os.geteuid() == 0, "others have a service of their own")
    refused = machine.hermes("install", "--run-as", "nobody-of-that-name")
    assert refused.returncode == 1
    assert refused.stderr == "hermes: this machine has no user nobody-of-that-name\n"
    assert not (machine.folder / "bin" / "told").exists()


def test_what_is_not_installed_is_neither_started_nor_stopped(machine: Machine) -> None:
    for action in ("start", "stop", "uninstall"):
        refused = machine.hermes(action, "--home", str(machine.folder / "elsewhere"))
        assert refused.returncode == 1
        assert refused.stderr.endswith("install it with: hermes service install\n")


@pytest.mark.parametrize(("state", "status"), [("active", 0), ("failed", 1), ("inactive", 1)])
def test_status_says_whether_it_runs(machine: Machine, state: str, status: int) -> None:
    machine.systemd_is(state)
    said = machine.hermes("status", "--json")
    assert said.returncode == status, said.stderr
    assert json.loads(said.stdout) == {
        "service": "hermes",
        "installed": True,
        "enabled": True,
        "state": state,
        "pid": 77,
        "restarts": 2,
    }
    assert "show hermes --property=" in machine.told[-1]
    in_words = machine.hermes("status").stdout
    assert ("as process 77 (2 restarts)" if status == 0 else state) in in_words


def test_without_systemd_it_says_what_to_do(machine: Machine) -> None:
    (machine.folder / "bin" / "systemctl").unlink()
    refused = machine.hermes("status", path="")
    assert refused.returncode == 1
    assert "no systemd" in refused.stderr
    assert "hermes up --no-chat" in refused.stderr
