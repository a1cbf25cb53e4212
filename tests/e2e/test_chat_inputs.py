"""What a person gives a chat besides words: files, pictures, the clipboard, and commands."""

import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.e2e.backends import need_backend, sandboxed
from tests.e2e.deployment import Deployment, one_process, running
from tests.e2e.home import check_complaint
from tests.e2e.model import model_process
from tests.e2e.terminal import CTRL_D, Terminal, terminal

PROMPT = r"^>$"
PNG = b"\x89PNG\r\n\x1a\n" + bytes(40)


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """A running `hermes up` that has risky commands allowed first."""
    script, folder = tmp_path_factory.mktemp("model"), tmp_path_factory.mktemp("inputs")
    config = {
        **sandboxed(need_backend("bubblewrap", folder)),
        "approvals": {"mode": "manual", "sandboxed": "ask"},
    }
    with ExitStack() as stack:
        model = stack.enter_context(model_process(script))
        made = one_process(folder, model.url, config)
        programs = folder / "programs"
        programs.mkdir()
        (programs / "wl-paste").write_text(f"#!/bin/sh\ncat {folder}/clipboard 2>/dev/null\n")
        (programs / "wl-paste").chmod(0o755)
        yield stack.enter_context(running(made))


@pytest.fixture
def chat(up: Deployment) -> Iterator[Terminal]:
    """A chat that is left in the end."""
    client = up.client.set(PATH=f"{up.folder}/programs:/usr/bin:/bin")
    # So wide that no path is broken into lines.
    with terminal(client, "chat", columns=250) as opened:
        opened.wait_for(PROMPT)
        yield opened
        opened.wait_for(PROMPT)
        opened.press(CTRL_D)
        assert opened.wait_end() == 0


def test_a_command_runs_in_the_sandbox_with_the_approvals_of_the_tool(chat: Terminal) -> None:
    chat.type("!echo fort''y-two; pwd")
    screen = chat.wait_for(r"│ /workspace\n  ✓ exit 0")
    assert "▸ terminal  echo fort''y-two; pwd\n  │ forty-two\n" in screen
    assert "Queued" not in screen
    chat.wait_for(PROMPT)
    chat.type("!mkdir -p src && rm -rf src")
    chat.wait_for(r"^terminal wants to run:\nmkdir -p src && rm -rf src")
    chat.type("no")
    chat.wait_for("✗ The user denied this call")


def test_files_lines_and_folders_are_named_with_an_at(chat: Terminal, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("one\ntwo\nthree\n")
    chat.press(f"read @{tmp_path}/no\t")
    chat.wait_for(r"notes\.txt")
    chat.type(":2-3 now")
    screen = chat.wait_for(r"^three\n+.End of untrusted")
    assert re.search(r"notes_2-3\.txt:\]\n(.*\n){1,2}two\nthree\n", screen)
    chat.wait_for(PROMPT)
    chat.type(f"list @{tmp_path} please")
    chat.wait_for(r"^notes\.txt")
    chat.wait_for(PROMPT)
    chat.type(f"read @{tmp_path}/notes.txt:7")
    chat.wait_for("Not sent: .*has no lines 7")
    chat.wait_for(PROMPT)
    chat.type("mail me@example.com or @nobody")
    chat.wait_for("^You said: mail me@example.com or @nobody")


def test_a_dropped_or_pasted_picture_goes_with_the_message(
    chat: Terminal, up: Deployment, tmp_path: Path
) -> None:
    (tmp_path / "a cat.png").write_bytes(PNG)
    chat.type(f"{tmp_path}/a\\ cat.png")
    chat.wait_for(r"\[a cat\.png\]")
    chat.wait_for(r"The picture .*a[_ -]cat\.png")
    chat.wait_for(PROMPT)
    chat.press("\x16")
    chat.wait_for("The clipboard has no picture")
    (up.folder / "clipboard").write_bytes(PNG)
    chat.press("\x16")
    chat.wait_for(r"pasted_\w+\.png")
    chat.type("look")
    assert "Not sent" not in chat.wait_for(r"The picture .*pasted_")


def test_pictures_are_given_by_an_option(up: Deployment, tmp_path: Path) -> None:
    (tmp_path / "cat.png").write_bytes(PNG)
    (tmp_path / "note.txt").write_text("Buy milk.")
    said = up.client.ask("what is it?", "--image", str(tmp_path / "cat.png"))
    assert "cat.png" in said["answer"]
    with terminal(up.client, "chat", "--image", str(tmp_path / "cat.png")) as chat:
        chat.wait_for(PROMPT)
        chat.type("what is it?")
        chat.wait_for(r"The picture .*cat\.png")
        chat.wait_for(PROMPT)
        chat.press(CTRL_D)
        assert chat.wait_end() == 0
    for name, why in (("none.png", "cannot be read"), ("note.txt", "is not a picture")):
        refused = up.client.run("chat", "-q", "what?", "--image", str(tmp_path / name))
        check_complaint(refused, why)
