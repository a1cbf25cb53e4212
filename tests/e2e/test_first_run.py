"""The first start, with nothing set and a model server on this machine."""

import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from agent_service.models.discovery import LOCAL_PORTS
from tests.e2e.backends import sandboxed
from tests.e2e.home import REPOSITORY, Home, check_complaint
from tests.e2e.terminal import terminal

QUESTION = ("chat", "-q", "hello")
OFFER = r"Use it\? \[Y/n\]"


@contextmanager
def _serving(port: int, script: Path) -> Generator[str]:
    argv = [sys.executable, "-m", "tests.fakes.model", "--script", str(script), "--port", f"{port}"]
    with subprocess.Popen(
        argv, cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.kill()


@pytest.fixture
def local(tmp_path: Path, usual_ports: None) -> Generator[str]:
    """A model server on one of the usual ports; its URL."""
    script = tmp_path / "script.json"
    script.write_text('{"rules": [{"steps": [{"text": "You said: {user}"}]}]}', encoding="utf-8")
    for port in LOCAL_PORTS.values():
        with _serving(port, script) as url:
            if url:
                yield url
                return
    raise AssertionError("all of the usual ports are taken")


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A home without a model, of somebody who has just installed Hermes."""
    return replace(Home.make(tmp_path, sandboxed("bubblewrap")), forks=False)


def test_a_script_is_told_what_to_set_and_never_asked(home: Home, local: str) -> None:
    for options in ([], ["--json"]):
        told = home.run(*QUESTION, *options)
        check_complaint(told, f"HERMES_BASE_URL={local}")
        assert told.out == ""
    with terminal(home, *QUESTION, "--json", piped=True) as asking:
        assert asking.wait_end() == 1
        assert asking.read_piped() == ""
        assert f"HERMES_BASE_URL={local}" in asking.screen.replace("\n", "")
    assert not (home.path / ".env").exists()


@pytest.mark.parametrize("piped", [False, True])
def test_a_person_is_asked_where_the_question_can_be_seen(
    home: Home, local: str, *, piped: bool
) -> None:
    with terminal(home, *QUESTION, piped=piped) as asking:
        assert local in asking.wait_for(OFFER)
        asking.type("")
        assert asking.wait_end() == 0
        out = asking.read_piped() if piped else asking.screen
    assert out.splitlines()[-1] == "You said: hello"
    assert not piped or out == "You said: hello\n"
    assert f"HERMES_BASE_URL={local}" in (home.path / ".env").read_text(encoding="utf-8")


def test_who_declines_is_told_what_to_set(home: Home, local: str) -> None:
    with terminal(home, *QUESTION) as asking:
        asking.wait_for(OFFER)
        asking.type("n")
        assert asking.wait_end() == 1
        assert "OPENROUTER_API_KEY" in asking.screen
        assert local in asking.screen
