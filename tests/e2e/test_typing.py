"""Typing while Hermes works: the line stays at the bottom, and what is entered is not lost."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.e2e.backends import need_backend, sandboxed
from tests.e2e.deployment import Deployment, one_process, running
from tests.e2e.model import MARKER, STORY, TELL, calls, model_process, rule, terminal_call
from tests.e2e.processes import with_marker
from tests.e2e.terminal import CTRL_C, CTRL_D, ENTER, Terminal, terminal

PROMPT = r"^>$"
WORKING = r"^… working; press Ctrl-C to stop$"
ALLOW = r"^allow\? .* >$"
CTRL_L, CTRL_U, CTRL_Y = "\x0c", "\x15", "\x19"
RISKY = "rm -rf gone; "

RULES = (
    rule("hold on", calls(terminal_call(f"echo holding; sleep {MARKER}", timeout=600))),
    rule("a nap", calls(terminal_call("echo begun; sleep 2; echo and over")), TELL),
    rule(
        "a risky nap",
        calls(terminal_call("echo begun; sleep 1")),
        calls(terminal_call(f"{RISKY}echo did it")),
        TELL,
    ),
    rule("a long line", {"text": STORY, "chunk_chars": 7, "chunk_delay_s": 0.03}),
    rule("some code", {"text": "Say `code`,\n**now**", "chunk_chars": 3, "chunk_delay_s": 0.03}),
    rule("", {"text": "You said: {user}"}),
)


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """A running `hermes up` that has risky commands allowed first."""
    script, folder = tmp_path_factory.mktemp("model"), tmp_path_factory.mktemp("typing")
    config = {**sandboxed(need_backend("bubblewrap", folder)), "approvals": {"mode": "manual"}}
    with ExitStack() as stack:
        model = stack.enter_context(model_process(script, RULES))
        yield stack.enter_context(running(one_process(folder, model.url, config)))


@pytest.fixture(scope="module")
def opened(up: Deployment) -> Iterator[Terminal]:
    """A chat that is left in the end."""
    editor = up.client.path / "editor"
    editor.write_text("""#!/bin/sh\nprintf '%s in the editor' "$(cat "$1")" > "$1"\n""")
    editor.chmod(0o755)
    with terminal(up.client.set(EDITOR=str(editor)), "chat") as chat:
        chat.wait_for(PROMPT)
        yield chat
        chat.press(CTRL_D)
        assert chat.wait_end() == 0


@pytest.fixture
def chat(opened: Terminal) -> Terminal:
    """The chat in a new session, on a clear screen."""
    opened.type("/busy default")
    opened.wait_for("stops the work")
    opened.type("/new")
    opened.wait_for("A new session begins")
    opened.wait_for(PROMPT)
    opened.press(CTRL_L)
    opened.wait_for(r"\A>(\n.*)?\Z")
    return opened


def said(up: Deployment, session_id: str) -> str:
    """What a session has."""
    return up.client.run("sessions", "show", session_id).out


def in_order(screen: str, *parts: str) -> None:
    """The screen shows the parts, one after the other."""
    places = [screen.index(part) for part in parts]
    assert places == sorted(places), screen


def test_a_message_interrupts_the_work_and_is_taken_next(chat: Terminal) -> None:
    chat.type("hold on")
    chat.wait_for("│ holding")
    chat.wait_for(WORKING)
    chat.type("do this instead")
    screen = chat.wait_for("^You said: do this instead")
    in_order(screen, "│ holding", "> do this instead", "interrupted", "You said: do this instead")
    assert with_marker(MARKER) == [], "what was interrupted runs on"
    chat.wait_for(PROMPT)


def test_a_message_waits_for_the_end_of_the_work(chat: Terminal) -> None:
    chat.type("/busy queue")
    chat.wait_for("waits until the work")
    chat.wait_for(PROMPT)
    chat.type("a nap")
    chat.wait_for("│ begun")
    chat.type("what then")
    chat.press("half a li")
    chat.wait_for("^… half a li$")
    screen = chat.wait_for("^You said: what then")
    in_order(screen, "│ begun", "> what then", "│ and over", "You said: what then")
    assert "interrupted" not in screen
    chat.wait_for("^> half a li$")
    chat.type("ne")
    chat.wait_for("^You said: half a line")
    chat.wait_for(PROMPT)


def test_ctrl_c_stops_the_work_and_leaves_what_is_typed(chat: Terminal) -> None:
    chat.type("hold on")
    chat.wait_for("│ holding")
    chat.press("half")
    chat.wait_for("^… half$")
    chat.press(CTRL_C)
    chat.wait_for("^interrupted")
    assert with_marker(MARKER) == [], "what was interrupted runs on"
    chat.wait_for("^> half$")
    chat.type(" of it")
    chat.wait_for("^You said: half of it")
    chat.wait_for(PROMPT)
    chat.press("never mind")
    chat.wait_for("^> never mind$")
    chat.press(CTRL_C)
    chat.wait_for(PROMPT)
    chat.press(CTRL_C)
    chat.wait_for(r"^Press Ctrl-D to leave\.\n>$")


def test_what_is_half_typed_is_no_answer_to_what_is_asked(chat: Terminal) -> None:
    chat.type("/busy queue")
    chat.wait_for("waits until")
    chat.wait_for(PROMPT)
    chat.type("a risky nap")
    chat.wait_for("│ begun")
    chat.press("y")
    chat.wait_for("^… y$")
    chat.wait_for("wants to run:\nrm -rf gone; echo did it\nYour draft is not the.*\n… y$")
    chat.press(ENTER)
    screen = chat.wait_for(ALLOW)
    assert "│ did it" not in screen, "a message was taken for an answer"
    chat.type("no")
    screen = chat.wait_for("^You said: y$")
    assert "│ did it" not in screen


def test_commands_are_completed_and_said_while_hermes_works(chat: Terminal) -> None:
    chat.type("hold on")
    chat.wait_for("│ holding")
    chat.press("/statu\t")
    chat.wait_for("^… /status$")
    chat.press(ENTER)
    chat.wait_for("Working on your message")
    chat.wait_for(WORKING)
    chat.type("/stop")
    chat.wait_for("^interrupted")
    chat.wait_for(PROMPT)
    assert with_marker(MARKER) == [], "what was stopped runs on"


@pytest.mark.slow
def test_words_stay_whole_while_one_types(chat: Terminal) -> None:
    chat.type("a long line")
    chat.wait_for("word2")
    for key in "half a line":
        chat.press(key)
    chat.wait_for("^… half a line$")
    assert "word39" not in chat.screen
    screen = chat.wait_for("word39")
    told = screen.partition("> a long line\n")[2].partition("half")[0].rstrip("…> \n")
    assert "".join(told.split()) == "".join(STORY.split())
    chat.wait_for("^> half a line$")
    chat.press(CTRL_U)
    chat.wait_for(PROMPT)


@pytest.mark.slow
def test_a_model_of_the_endpoint_is_chosen_by_number(chat: Terminal) -> None:
    chat.type("/model")
    chat.wait_for(r"^number \(1-1\) or message >$")
    assert "1. scripted, configured" in chat.screen
    chat.type("1")
    chat.wait_for("scripted answers in this session")
    chat.wait_for(PROMPT)


def test_what_is_pasted_is_one_message_of_several_lines(chat: Terminal) -> None:
    chat.type("a nap")
    chat.wait_for("│ begun")
    chat.press("\x1b[200~/queue first\r\n  second\x1b[201~")
    chat.wait_for("^… /queue first\n    second$")
    chat.wait_for("^and over")
    chat.wait_for("^> /queue first\n    second$")
    chat.press(ENTER)
    screen = chat.wait_for("^You said: .*first\n  second\n>$")
    assert screen.count("second") == 2, "one message, and one answer"


def test_a_message_has_several_lines_by_keys_or_a_backslash(chat: Terminal) -> None:
    for newline in ("\x1b\r", "\n", "\\\r"):
        chat.press(f"one{newline}two")
        chat.wait_for("^> one\n  two$")
        chat.press(ENTER)
        assert chat.wait_for("^You said: one\ntwo$").count("You said") == 1, "one message"
        chat.wait_for(PROMPT)
        chat.press(CTRL_L)
        chat.wait_for(r"\A>(\n.*)?\Z")


@pytest.mark.slow
def test_what_is_entered_before_the_line_is_there_is_sent(up: Deployment) -> None:
    with terminal(up.client, "chat") as chat:
        chat.press("an early bird\n")  # as the terminal sends Enter before the chat reads it
        assert chat.wait_for("^You said: an early bird").count("You said") == 1


@pytest.mark.slow
def test_a_message_is_written_in_the_editor(chat: Terminal) -> None:
    chat.type("/edit begun")
    chat.wait_for("^> begun in the editor$")
    chat.press(CTRL_U + "other\x18\x05")
    chat.wait_for("^> other in the editor$")
    chat.press(ENTER)
    chat.wait_for("^You said: other in the editor$")
    assert "begun" not in chat.wait_for(PROMPT).replace("/edit begun", "")


@pytest.mark.slow
def test_all_that_was_entered_is_answered_after_a_crash(up: Deployment, chat: Terminal) -> None:
    chat.type("a nap")
    chat.wait_for("│ begun")
    chat.type("/queue what then")
    chat.type("/status")
    chat.wait_for("Working on your message, 1 waiting")
    chat.press("half")
    chat.wait_for("^… half$")
    up.kill()
    up.start()
    screen = chat.wait_for("^You said: .*what then$")
    assert screen.count("You said") == screen.count("│ and over") == 1
    chat.wait_for("^> half$")
    chat.press(CTRL_U)
    chat.wait_for(PROMPT)
