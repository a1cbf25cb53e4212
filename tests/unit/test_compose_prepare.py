"""What the compose stack mounts of a home, and whose engine it takes."""

import os
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.source import ROOT
from tests.requirements import require

MODEL_KEY = "OPENROUTER_API_KEY"
TOKEN = "TELEGRAM_BOT_TOKEN"


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Path]:
    """The socket of a user's engine."""
    path = tmp_path / "engine.sock"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        if os.geteuid() == 0:
            os.chown(path, 1000, 1000)
        yield path


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with a key, a token, and one that the config names."""
    made = tmp_path / "home"
    made.mkdir(mode=0o700)
    (made / ".env").write_text(f"{MODEL_KEY}='a \"b\" $c'\n{TOKEN}=1:two\nMY_KEY=three\n")
    (made / "config.yaml").write_text("model:\n  default: scripted\n")
    return made


def prepare(home: Path, engine: Path) -> subprocess.CompletedProcess[str]:
    """Run the program."""
    return subprocess.run(
        [sys.executable, ROOT / "docker/compose-prepare", "--home", home, "--engine", engine],
        check=False,
        capture_output=True,
        text=True,
    )


def test_each_service_gets_its_own_secrets(home: Path, engine: Path) -> None:
    done = prepare(home, engine)
    assert done.returncode == 0, done.stderr
    folder = home / "compose"
    assert done.stdout == f"{folder / 'settings'}\n"
    agents, gateways = ((folder / f"{name}.env").read_text() for name in ("agent", "gateway"))
    assert gateways == f"{TOKEN}='1:two'\n"
    assert agents == f"{MODEL_KEY}='a \"b\" $c'\nMY_KEY='three'\n"
    assert (folder / "config.yaml").read_text() == (home / "config.yaml").read_text()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    settings = dict(line.split("=", 1) for line in (folder / "settings").read_text().splitlines())
    owner = engine.stat()
    assert settings["HERMES_EXECUTOR_USER"] == f"{owner.st_uid}:{owner.st_gid}"
    assert Path(settings["HERMES_EXECUTOR_HOME"]).stat().st_uid == owner.st_uid


def test_passwords_are_made_once_and_settings_anew(home: Path, engine: Path) -> None:
    prepare(home, engine)
    password = (home / "compose/database-password").read_text()
    (home / ".env").write_text("")
    prepare(home, engine)
    assert (home / "compose/database-password").read_text() == password
    assert password in (home / "compose/database-url").read_text()
    assert (home / "compose/agent.env").read_text() == ""


def test_an_engine_of_root_is_refused(home: Path, engine: Path) -> None:
    require("root", os.geteuid() == 0, "only root can make a socket of root's")
    os.chown(engine, 0, 0)
    done = prepare(home, engine)
    assert done.returncode == 1
    assert "whoever reaches" in done.stderr
    assert "rootless" in done.stderr
    assert not (home / "compose").exists()


def test_no_engine_is_refused(home: Path, tmp_path: Path) -> None:
    done = prepare(home, tmp_path / "nowhere")
    assert done.returncode == 1
    assert "no engine listens" in done.stderr
