"""The chat as a person sees it, in a real pseudo-terminal."""

import re
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.e2e.backends import sandboxed
from tests.e2e.deployment import Deployment, one_process
from tests.e2e.home import Home, check_complaint
from tests.e2e.model import (
    FLOOD_GROWTH_MIB,
    MARKER,
    NOTE,
    TELL,
    ModelProcess,
    calls,
    model_process,
    rule,
    terminal_call,
)
from tests.e2e.processes import check_nothing_left, end_users_of
from tests.e2e.terminal import CTRL_C, CTRL_D, terminal
from tests.support.memory import Memory

PROMPT = r"^>$"
"""The prompt of the moment, in which nothing is typed yet."""


def test_a_command_is_seen_and_its_answer_read(up: Deployment, backend: str) -> None:
    with terminal(up.client, "chat") as chat:
        chat.wait_for(PROMPT)
        chat.type("who are you")
        screen = chat.wait_for(r"^/workspace")
        assert "▸ terminal  id; hostname; pwd" in screen
        assert re.search(rf"✓ exit 0 · {backend} · \d+\.\d s", screen)
        chat.wait_for(r"^uid=(?!0)")
        assert re.search(rf"\n>\n.*scripted · .* tokens · {backend}\Z", chat.wait_for(PROMPT))
        chat.press(CTRL_D)
        assert chat.wait_end() == 0


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_files_four_commands_at_once_and_a_flood_are_seen(up: Deployment) -> None:
    with terminal(up.client, "chat") as chat:
        chat.wait_for(PROMPT)
        chat.type("write the note")
        chat.wait_for(r"^2\|with a second line")
        chat.wait_for(PROMPT)
        chat.type("four naps")
        screen = chat.wait_for("^All four are over")
        for number in range(4):
            assert f"▸ {number + 1} terminal  sleep 0.5; echo nap {number}" in screen
            assert f"\n {number + 1} │ nap {number}\n" in screen
            assert f"\n {number + 1} ✓ exit 0" in screen
        chat.wait_for(PROMPT)
        watch = Memory(*up.pids, chat.process.pid)
        chat.type("flood")
        chat.wait_for("^the last line", timeout_s=100)
        assert watch.grown_mib() < FLOOD_GROWTH_MIB
        chat.wait_for(PROMPT)
        chat.press(CTRL_D)
        assert chat.wait_end() == 0


@pytest.mark.slow
def test_a_file_that_was_not_fetched_is_when_the_chat_is_opened_again(up: Deployment) -> None:
    received = up.client.path / "received"
    shutil.rmtree(received, ignore_errors=True)
    received.write_text("in the way")
    with terminal(up.client, "chat") as chat:
        chat.wait_for(PROMPT)
        chat.type("send the report")
        # The length of the path decides where the terminal breaks the line.
        again = r"\s*".join("triesagain")
        chat.wait_for(rf"^cannot download report\.txt: [^>]*{again}")
        chat.press(CTRL_D)
        assert chat.wait_end() == 0
    received.unlink()
    with terminal(up.client, "chat") as chat:
        chat.wait_for(rf"^report\.txt \({len(NOTE)} bytes\) was saved as\s")
        assert [each.read_text() for each in received.glob("*/report.txt")] == [NOTE]
        chat.press(CTRL_D)
        assert chat.wait_end() == 0


@pytest.mark.slow
def test_a_question_is_answered_in_words_or_by_number(up: Deployment) -> None:
    with terminal(up.client, "chat") as chat:
        for answer, told in (("The Small One", "The Small One"), ("2", "sea otter")):
            chat.wait_for(PROMPT)
            chat.type("draw an otter")
            screen = chat.wait_for(r"^answer >$")
            assert "Which otter?\n  1. river otter\n  2. sea otter" in screen
            chat.type(answer)
            chat.wait_for(f"^The user answered: {told}")
        chat.wait_for(PROMPT)
        chat.press(CTRL_D)
        assert chat.wait_end() == 0


@pytest.mark.slow
def test_the_last_session_goes_on(up: Deployment) -> None:
    up.client.ask("hello first")
    asked = up.client.ask("write the note", "--continue")
    with terminal(up.client, "chat", "--continue") as chat:
        seen = chat.wait_for(PROMPT)
        assert seen.index("> hello first") < seen.index("> write the note") < seen.index("Ctrl-C")
        assert "You said: hello first" in seen
        chat.type("show the note")
        chat.wait_for("^with a second line")
        chat.type("/status")
        assert asked["session_id"] in chat.wait_for(asked["session_id"])
        chat.type("/new")
        chat.wait_for("A new session begins")
        chat.type(f"/resume {asked['session_id']}")
        assert chat.wait_for("> write the note", count=2).count("> hello first") == 1


# It asks wherever it runs, since it deletes files of the session.
RISKY = "rm -rf gone; "
# The same command each time, so that it can be allowed for the session.
IN_TURN = (
    f"{RISKY}if [ -e .one ]; then rm .one; echo two of two; else touch .one; echo one of two; fi"
)


@pytest.fixture
def careful(backend: str, tmp_path: Path) -> Iterator[Home]:
    """A home in which every command of the model has to be allowed."""
    rules = (
        rule("who are you", calls(terminal_call(f"{RISKY}id; hostname; pwd")), TELL),
        rule(
            "sleep long",
            calls(terminal_call(f"{RISKY}echo sleeping; sleep {MARKER}", timeout=600)),
            {"text": "I slept."},
        ),
        rule("touch a file", calls(terminal_call(f"{RISKY}touch made; echo done")), TELL),
        rule("two in a row", calls(terminal_call(IN_TURN)), calls(terminal_call(IN_TURN)), TELL),
        rule("", {"text": "You said: {user}"}),
    )
    folder = tmp_path / "model"
    folder.mkdir()
    with model_process(folder, rules) as model:
        yield _careful(backend, model, tmp_path)


def _careful(backend: str, model: ModelProcess, tmp_path: Path) -> Home:
    config = {**sandboxed(backend), "approvals": {"mode": "manual"}}
    return one_process(tmp_path, model.url, config).client


def test_a_person_allows_once_denies_and_allows_for_the_session(careful: Home) -> None:
    with terminal(careful, "up") as chat:
        chat.wait_for(PROMPT)
        chat.type("who are you")
        chat.wait_for("terminal wants to run:\n *rm -rf gone; id; hostname; pwd")
        chat.wait_for("allow")
        chat.type("y")
        chat.wait_for("^/workspace")

        chat.wait_for(PROMPT)
        chat.type("touch a file")
        chat.wait_for("wants to run", count=2)
        chat.type("n")
        screen = chat.wait_for(PROMPT)
        assert "✗" in screen

        chat.type("two in a row")
        chat.wait_for("wants to run", count=3)
        chat.type("s")
        screen = chat.wait_for("^two of two")
        assert "│ one of two" in screen
        assert screen.count("wants to run") == 3, "for the session means not to be asked again"
        chat.wait_for(PROMPT)
        chat.press(CTRL_D)
        assert chat.wait_end() == 0


@pytest.mark.slow
@pytest.mark.parametrize("stop", [CTRL_C, "/stop\r"])
def test_the_turn_can_be_stopped_instead_of_allowing(careful: Home, stop: str) -> None:
    with terminal(careful, "up") as chat:
        chat.wait_for(PROMPT)
        chat.type("sleep long")
        chat.wait_for("allow")
        chat.press(stop)
        chat.wait_for("^interrupted")
        assert "I slept." not in chat.wait_for(PROMPT)
        chat.type("hello after that")
        chat.wait_for("^You said: hello after that")


@pytest.mark.slow
def test_one_shot_denies_what_nobody_can_allow(careful: Home) -> None:
    result = careful.run("chat", "-q", "touch a file", "--json")
    assert result.status == 0
    assert result.complaints == [
        "hermes: denied, because nobody can approve it here: “rm -rf gone; touch made; echo done”"
    ]
    assert result.json["tool_calls"][0]["is_error"] is True
    assert "nobody can be asked here" in result.json["answer"]


def test_up_talks_serves_others_and_leaves_nothing(
    backend: str, model: ModelProcess, tmp_path: Path
) -> None:
    home = one_process(tmp_path, model.url, sandboxed(backend)).client
    with terminal(home, "up") as chat:
        chat.wait_for(PROMPT)
        chat.type("hello you")
        chat.wait_for("^You said: hello you")
        check_complaint(home.run("up"), "already running", "hermes chat")
        beside = home.ask("who are you")
        assert beside["tool_calls"][0]["backend"] == backend
        assert len(home.run("sessions", "list", "--json").json) == 2
        chat.press(CTRL_D)
        assert chat.wait_end() == 0
    with terminal(home, "up", "--continue") as chat:
        chat.wait_for(PROMPT)
        assert "who are you" in chat.screen, "the session that was used last goes on"
        chat.press(CTRL_D)
        assert chat.wait_end() == 0
    check_nothing_left(tmp_path)
    assert not (home.path / "run" / "hermes.sock").exists()


def test_who_leaves_is_told_who_still_uses_hermes_and_may_end_it(
    model: ModelProcess, tmp_path: Path
) -> None:
    home = one_process(tmp_path, model.url, sandboxed("bubblewrap")).client
    with ExitStack() as stack:
        # Who presses Ctrl-C twice leaves what runs to the next start.
        stack.callback(end_users_of, tmp_path)
        server = stack.enter_context(terminal(home, "chat"))
        server.wait_for(PROMPT)
        guest = stack.enter_context(terminal(home, "chat"))
        guest.wait_for(PROMPT)
        guest.type("sleep long")
        guest.wait_for("▸ terminal")
        server.press(CTRL_D)
        told = server.wait_for(rf"\(process {guest.process.pid}\) still uses Hermes")
        assert "Ctrl-C" in told
        server.press(CTRL_C)
        server.wait_end(timeout_s=2)
        guest.press(CTRL_C * 2)
