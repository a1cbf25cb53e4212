"""The demo, which needs no model, ends with its job's report, and leaves nothing behind."""

import platform
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.e2e.home import Home
from tests.e2e.processes import check_nothing_left, end_users_of
from tests.e2e.terminal import CTRL_D, terminal

PROMPT = r"^>$"

pytestmark = pytest.mark.timeout(90)


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[Home]:
    """A home in which nothing is set, and a folder of its own for what is temporary."""
    yield replace(Home.make(tmp_path).set(TMPDIR=str(tmp_path)), forks=False)
    end_users_of(tmp_path)


def check_gone(folder: Path) -> None:
    """Neither processes nor containers are left, nor the demo's own home."""
    check_nothing_left(folder)
    assert not list(folder.glob("hermes-demo-*"))


def test_the_tour_shows_everything_and_waits_for_the_job(demo: Home, tmp_path: Path) -> None:
    shown = demo.run("demo", "--job", "in 1 second")
    assert (shown.status, shown.err) == (0, "")
    assert shown.out.startswith("DEMO: the model is a script")
    tour, job, report = shown.out.partition("(the job reports)\n")
    assert "This file is in the sandbox." in tour
    assert tour.count("✓ exit 0") >= 5
    assert "All four are back" in tour
    assert job
    assert "Linux sandbox" in report or platform.release() in report
    assert list(demo.path.iterdir()) == []
    check_gone(tmp_path)


@pytest.mark.slow
def test_in_a_terminal_one_types_and_the_job_reports_meanwhile(demo: Home, tmp_path: Path) -> None:
    with terminal(demo, "demo", "--job", "in 1 second") as shown:
        shown.wait_for("^DEMO: ")
        shown.wait_for("^── news\nThe job .* has come to:\n\n.*The command really ran")
        shown.wait_for(PROMPT)
        shown.type("hello")
        shown.wait_for(r"start\s+hermes chat")
        shown.wait_for(PROMPT)
        shown.press(CTRL_D)
        assert shown.process.wait(30) == 0
    check_gone(tmp_path)


@pytest.mark.usefixtures("usual_ports")
@pytest.mark.slow
@pytest.mark.parametrize("command", ["up", "chat"])
def test_who_has_no_model_is_told_what_to_set_and_offered_the_demo(
    demo: Home, tmp_path: Path, command: str
) -> None:
    with terminal(demo, command) as shown:
        screen = shown.wait_for("Start the demo now")
        assert all(name in screen for name in ("OPENROUTER_API_KEY", "HERMES_BASE_URL", "Ollama"))
        shown.type("")
        shown.wait_for("^DEMO: ")
        shown.wait_for(PROMPT)
        shown.press(CTRL_D)
        assert shown.process.wait(30) == 0
    check_gone(tmp_path)
