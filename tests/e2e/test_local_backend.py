"""Commands on this machine itself: only where the owner allows it, never for root, and told."""

import os
import subprocess
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.deployment import one_process
from tests.e2e.home import REPOSITORY, Home, Result, check_complaint
from tests.e2e.model import ModelProcess
from tests.e2e.processes import check_nothing_left
from tests.support.requirements import require
from tests.support.users import UID, users_folder, users_python

ALLOWED = {"terminal": {"backend": "local"}, "security": {"allow_local_backend": True}}
MAIN = "import sys; from services.cli.main import main; sys.exit(main())"


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder of an ordinary user's own."""
    with users_folder() as folder:
        yield folder
        check_nothing_left(folder)


def hermes(home: Home, *argv: str) -> Result:
    """Run `hermes` as an ordinary user."""
    imports = (REPOSITORY, REPOSITORY / "protos" / "gen", sysconfig.get_path("purelib"))
    environ = {**home.environ, "PYTHONPATH": ":".join(map(str, imports))}
    is_root = os.geteuid() == 0
    for path in home.path.parent.rglob("*") if is_root else ():
        os.chown(path, UID, UID)
    done = subprocess.run(
        [users_python(), "-c", MAIN, *argv],
        env=environ,
        cwd=home.path.parent,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        user=UID if is_root else None,
        group=UID if is_root else None,
        extra_groups=[] if is_root else None,
    )
    return Result(done.returncode, done.stdout, done.stderr)


def test_everything_says_that_nothing_isolates_commands(model: ModelProcess, folder: Path) -> None:
    home = one_process(folder, model.url, ALLOWED).client
    asked = hermes(home, "chat", "-q", "touch a file", "--json")
    assert asked.status == 0, asked.err
    (line,) = asked.complaints
    assert (
        "commands run without a sandbox: commands run on this machine itself, without isolation"
        in line
    )
    (call,) = asked.json["tool_calls"]
    assert (call["exit_code"], call["backend"], call["isolation"]) == (0, "local", "none")
    assert "[local is no sandbox: this was done on the machine itself]" in asked.json["answer"]
    (made,) = folder.rglob("made")
    assert made.stat().st_uid == UID
    found = hermes(home, "doctor")
    (line,) = [line for line in found.out.splitlines() if "isolation none" in line]
    assert "local" in line
    assert "commands run on this machine itself" in found.out.replace("\n", " ")


def test_root_is_refused(model: ModelProcess, tmp_path: Path) -> None:
    require("root", os.geteuid() == 0, "only root is refused")
    home = one_process(tmp_path, model.url, ALLOWED).client
    refused = home.run("chat", "-q", "touch a file")
    check_complaint(refused, "terminal.backend: local cannot be used", "as an ordinary user")
