"""Lines that are kept for the next sitting have no secrets in them."""

from pathlib import Path

from services.cli.chat.input_line import TypedHistory
from services.redaction.redactor import MASK, Redactor

SECRET = "canary.4711.of-the-home"


def test_a_line_is_kept_without_its_secrets_and_recalled_as_it_was_typed(tmp_path: Path) -> None:
    file = tmp_path / "chat_history"
    history = TypedHistory(file, Redactor([SECRET]))
    history.append_string(f"use {SECRET} for it")
    assert SECRET not in file.read_text()
    assert history.get_strings() == [f"use {SECRET} for it"]
    again = TypedHistory(file, Redactor([SECRET]))
    assert list(again.load_history_strings()) == [f"use {MASK} for it"]


def test_a_line_is_recalled_although_it_cannot_be_kept(tmp_path: Path) -> None:
    history = TypedHistory(tmp_path / "moved" / "chat_history", Redactor())
    history.append_string("go on")
    assert history.get_strings() == ["go on"]
