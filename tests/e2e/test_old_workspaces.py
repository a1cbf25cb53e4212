"""Old workspaces of a home: offered once, and taken over into workspaces of sessions."""

import json
import os
from pathlib import Path

import pytest

from tests.e2e.backends import need_backend, sandboxed
from tests.e2e.home import Home, check_complaint
from tests.e2e.model import ModelProcess
from tests.e2e.processes import check_nothing_left
from tests.e2e.terminal import CTRL_D, terminal

ASKED = r"asked\s+again\.\s+\[y\s*/N\]"
"""How long the path is decides where the line is broken."""
PROMPT = r"^>$"
"""Before it is there, the terminal keeps Ctrl-D for itself."""


@pytest.fixture
def home(tmp_path: Path, model: ModelProcess) -> Home:
    """A home with two old workspaces, and what is none."""
    made = Home.make(tmp_path)
    made.configure(sandboxed(need_backend("bubblewrap", tmp_path / "probe")))
    first = made.path / "sandboxes" / "first"
    (first / "src").mkdir(parents=True)
    (first / "src" / "a file.txt").write_text("kept\n")
    (first / "run.sh").write_text("#!/bin/sh\n")
    (first / "run.sh").chmod(0o755)
    (first / "inside").symlink_to("src/a file.txt")
    (first / "outside").symlink_to("../../config.yaml")
    (first / "absolute").symlink_to("/etc/passwd")
    os.mkfifo(first / "pipe")
    (made.path / "sandboxes" / "empty" / "folder").mkdir(parents=True)
    (made.path / "sandboxes" / "linked").symlink_to(first)
    return made.set(HERMES_BASE_URL=model.url, HERMES_MODEL="scripted")


def _file(home: Home) -> Path:
    """Where on the disk the workspaces have the old one's file, once."""
    (found,) = home.path.glob("workspaces/**/a file.txt")
    return found


def test_they_are_taken_once_without_what_leads_out(home: Home) -> None:
    (taken,) = home.run("home", "import", "--sandboxes", "--json").json
    check_nothing_left(home.path)
    assert (taken["name"], taken["reason"]) == ("first", None)
    assert sorted(line.split(": ")[0] for line in taken["left_out"]) == [
        "first/absolute",
        "first/outside",
        "first/pipe",
    ]
    assert "Old workspace first" in home.run("sessions", "list", "--json").out
    file = _file(home)
    assert file.read_text() == "kept\n"
    top = file.parents[1]
    assert top.name == "first"
    assert (top / "inside").read_text() == "kept\n"
    assert (top / "run.sh").stat().st_mode & 0o100
    assert not [name for name in ("outside", "absolute", "pipe") if os.path.lexists(top / name)]
    assert home.run("home", "import", "--sandboxes", "--json").json == []
    (home.path / "sandboxes" / "second").mkdir()
    (home.path / "sandboxes" / "second" / "late").write_text("x")
    (later,) = home.run("home", "import", "--sandboxes", "--json").json
    assert later["name"] == "second"
    # The old ones stay as they were.
    assert (home.path / "sandboxes" / "first" / "outside").is_symlink()


def test_what_was_cut_off_goes_on_and_an_older_session_gets_its_own(home: Home) -> None:
    known = home.ask("hi")["session_id"]
    (home.path / "sandboxes" / "first").rename(home.path / "sandboxes" / known)
    # Before the notes of it were written, all was there.
    (taken,) = home.run("home", "import", "--sandboxes", "--json").json
    assert taken["session_id"] == known
    notes = home.path / "state" / "old_workspaces.json"
    kept = json.loads(notes.read_text())
    assert kept["taken"] == {known: known}
    notes.write_text(json.dumps(kept | {"taken": {}}))
    (again,) = home.run("home", "import", "--sandboxes", "--json").json
    assert again == taken | {"left_out": []}
    assert _file(home).read_text() == "kept\n"


@pytest.mark.timeout(180)  # a program starts three times
def test_they_are_offered_once(home: Home) -> None:
    with home.spawn("up", "--no-chat", "--metrics-port", "0") as serving:
        assert serving.stderr is not None
        lines = iter(serving.stderr.readline, "")
        told = next(line for line in lines if "old workspace" in line)
        assert "1 old workspace: hermes home import --sandboxes takes them over" in told
        next(line for line in lines if "ready on" in line)
        serving.terminate()
    with terminal(home, "chat") as chat:
        chat.wait_for(ASKED)
        chat.type("n")
        chat.wait_for("takes them all the same")
        chat.wait_for("Ctrl-C interrupts")
        chat.wait_for(PROMPT)
        chat.press(CTRL_D)
        assert chat.process.wait(timeout=20) == 0
    with terminal(home, "chat") as chat:
        chat.wait_for("Ctrl-C interrupts")
        assert "Take them over" not in chat.screen
        chat.wait_for(PROMPT)
        chat.press(CTRL_D)
        assert chat.process.wait(timeout=20) == 0
    refused = home.run("home", "import", "--sandboxes", home.path / "elsewhere")
    check_complaint(refused, "neither a folder")
    check_complaint(home.run("home", "import"), "hermes home import DIR")


@pytest.mark.timeout(180)  # a program starts twice
def test_a_yes_takes_them_before_the_chat_begins(home: Home) -> None:
    with terminal(home, "chat") as chat:
        chat.wait_for(ASKED)
        chat.type("y")
        chat.wait_for(r"first is in /workspace/first of the session \S+: hermes chat --resume")
        chat.wait_for("Ctrl-C interrupts", timeout_s=40)
        chat.wait_for(PROMPT)
        chat.press(CTRL_D)
        assert chat.process.wait(timeout=20) == 0
    assert home.run("home", "import", "--sandboxes", "--json").json == []
