"""Commands of the Makefile that the documentation tells of, as they are typed."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.deployment import LEAVE_NOTHING, model_at
from tests.e2e.home import Home
from tests.e2e.model import ModelProcess
from tests.e2e.terminal import CTRL_D, terminal
from tests.e2e.test_terminal import PROMPT
from tests.support.make import make, run_make
from tests.support.markdown import ROOT

pytestmark = pytest.mark.timeout(120)  # `up` may make an image


class Checkout(Home, frozen=True):
    """Whose commands are those of the Makefile."""

    def spawn(
        self, *argv: str | Path, in_terminal: bool = False, **options: Any
    ) -> "subprocess.Popen[str]":
        """Start `make`, which then leads a session with its terminal."""
        session = ("setsid", "--ctty") if in_terminal else ()
        return subprocess.Popen([*session, *make(*map(str, argv))], env=self.environ, **options)


def test_up_starts_hermes_and_opens_a_chat(model: ModelProcess, tmp_path: Path) -> None:
    made = Home.make(tmp_path, {"terminal": {"backend": "bubblewrap"}})
    settings = {**model_at(model.url), **LEAVE_NOTHING, "HERMES_METRICS_PORT": "0"}
    with terminal(Checkout(made.path, settings), "up") as chat:
        chat.wait_for(PROMPT)
        chat.type("hello")
        chat.wait_for(f"^You said: hello[^>]*{PROMPT}")
        chat.press(CTRL_D)
        assert chat.wait_end() == 0


def test_test_runs_what_is_chosen() -> None:
    chosen = "tests/architecture/test_service_requirements.py"
    said = run_make("test", f"ARGS=-q --numprocesses=1 -p no:cacheprovider {chosen}")
    assert " passed" in said


class FreshCheckout(Home, frozen=True):
    """A folder in which nothing is installed, with a pip that says what it does."""

    def spawn(
        self, *argv: str | Path, in_terminal: bool = False, **options: Any
    ) -> "subprocess.Popen[str]":
        pip, folder = self.path / "pip", self.path
        (folder / "pyproject.toml").touch()
        (folder / "env").mkdir()
        pip.write_text("#!/bin/sh\necho Collecting something\nsleep 3\n")
        pip.chmod(0o755)
        given = (f"--directory={folder}", f"--file={ROOT / 'Makefile'}", "VENV=env", f"PIP={pip}")
        return subprocess.Popen(["setsid", "--ctty", "make", *given, *argv], **options)


def test_a_terminal_shows_what_is_being_installed(tmp_path: Path) -> None:
    made = FreshCheckout(Home.make(tmp_path).path)
    with terminal(made, "env/.installed-all") as screen:
        screen.wait_for("Installing Hermes into env")
        screen.wait_for("Collecting something")
        assert screen.wait_end() == 0
    assert (made.path / "env" / ".installed-all").exists()
