"""Notes of a repository for the folders in it: which count, and what is left unread."""

import os
from pathlib import Path

import pytest

from services.home.project_notes import MAX_BYTES, NotesAbove, is_path_above, notes_above


@pytest.fixture
def deep(tmp_path: Path) -> Path:
    """A folder two below the top of a repository, which lies in a folder with notes."""
    folder = tmp_path / "repo" / "src" / "deep"
    folder.mkdir(parents=True)
    (tmp_path / "repo" / ".git").mkdir()
    (tmp_path / "HERMES.md").write_text("Of somebody else.")
    return folder


def test_the_nearest_notes_up_to_the_top_of_the_repository_count(deep: Path) -> None:
    top = deep.parents[1]
    assert notes_above(deep, os.geteuid()) is None
    (top / "HERMES.md").write_text("---\nname: x\n---\n\nOf the top.\n")
    assert notes_above(deep, os.geteuid()) == NotesAbove("../../HERMES.md", "Of the top.")
    (top / ".hermes.md").write_text("Of the top, hidden.")
    assert notes_above(deep, os.geteuid()) == NotesAbove("../../.hermes.md", "Of the top, hidden.")
    (deep.parent / "HERMES.md").write_text("Of src.")
    assert notes_above(deep, os.geteuid()) == NotesAbove("../HERMES.md", "Of src.")


def test_notes_may_be_saved_on_windows(deep: Path) -> None:
    (deep.parents[1] / "HERMES.md").write_bytes(
        "---\r\nname: x\r\n---\r\nÜber.\r\n".encode("utf-16")
    )
    assert notes_above(deep, os.geteuid()) == NotesAbove("../../HERMES.md", "Über.")


def test_notes_that_say_nothing_are_as_if_they_were_not_there(deep: Path) -> None:
    (deep.parents[1] / "HERMES.md").write_text("Of the top.")
    (deep / ".hermes.md").write_text("---\nname: x\n---\n")
    (deep.parent / "HERMES.md").write_bytes(b"\0")
    (deep.parent / ".hermes.md").write_text("x" * (MAX_BYTES + 1))
    assert notes_above(deep, os.geteuid()) == NotesAbove("../../HERMES.md", "Of the top.")


def test_nothing_above_is_read_where_the_folder_has_notes_of_its_own(deep: Path) -> None:
    os.mkfifo(deep.parent / ".hermes.md")
    (deep / "HERMES.md").write_text("Of deep.")
    (deep.parents[1] / "HERMES.md").write_text("Of the top.")
    assert notes_above(deep, os.geteuid()) is None


def test_nothing_above_the_top_of_a_repository_or_without_one_is_read(deep: Path) -> None:
    assert notes_above(deep.parents[1], os.geteuid()) is None
    (deep.parents[1] / ".git").rmdir()
    assert notes_above(deep, os.geteuid()) is None
    # A work tree of git has a file there.
    (deep / ".git").write_text("gitdir: elsewhere")
    (deep.parent / "HERMES.md").write_text("Of src.")
    assert notes_above(deep, os.geteuid()) is None


def test_what_may_be_there_to_deceive_is_not_read(deep: Path, tmp_path: Path) -> None:
    secret = tmp_path / "id_rsa"
    secret.write_text("a private key")
    (deep.parent / ".hermes.md").symlink_to(secret)
    os.mkfifo(deep.parent / "HERMES.md")
    (deep.parents[1] / ".hermes.md").mkdir()
    assert notes_above(deep, os.geteuid()) is None


def test_notes_of_another_user_are_not_read(deep: Path) -> None:
    (deep.parent / "HERMES.md").write_text("Of a stranger.")
    assert notes_above(deep, os.geteuid() + 1) is None


@pytest.mark.parametrize(
    ("path", "is_above"),
    [
        ("../.hermes.md", True),
        ("../../HERMES.md", True),
        ("HERMES.md", False),
        ("../AGENTS.md", False),
        ("../x/HERMES.md", False),
        ("/etc/HERMES.md", False),
        ("../HERMES.md\n", False),
        ("../" * 65 + "HERMES.md", False),
    ],
)
def test_a_path_of_notes_above_says_no_more_than_where_they_lie(path: str, is_above: bool) -> None:
    assert is_path_above(path) is is_above
