"""Paths of files that come with messages: safe, readable, and never used twice."""

import pytest

from agent_service.models.pictures import picture_type
from agent_service.records.requests import FileKind, MessageFile
from agent_service.storage.uploads import path_of


def named(name: str, kind: FileKind = FileKind.DOCUMENT) -> MessageFile:
    return MessageFile("0" * 64, 1, kind, name)


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("report.pdf", "uploads/report.pdf"),
        ("Übersicht 2026 (final).xlsx", "uploads/Übersicht 2026 (final).xlsx"),
        ("../../etc/passwd", "uploads/passwd"),
        ("C:\\Windows\\notes.txt", "uploads/notes.txt"),
        ("..", "uploads/file"),
        (".bashrc", "uploads/bashrc"),
        ("a\nb\0c\u202egpj.exe", "uploads/a_b_c_gpj.exe"),
        ("$(reboot);`id`.sh", "uploads/_(reboot)__id_.sh"),
        ("", "uploads/file"),
        ("x" * 300 + ".tar", "uploads/" + "x" * 76 + ".tar"),
        ("-rf.txt", "uploads/rf.txt"),
    ],
)
def test_hostile_names_become_safe(name: str, path: str) -> None:
    assert path_of(named(name), ()) == path


def test_files_without_names_are_named_by_their_kind() -> None:
    assert path_of(named("", FileKind.VOICE), ()) == "uploads/voice.ogg"


def test_a_second_file_of_a_name_gets_a_number() -> None:
    taken = {"uploads/a.txt", "uploads/a-2.txt"}
    assert path_of(named("a.txt"), taken) == "uploads/a-3.txt"


def test_pictures_are_told_by_their_contents() -> None:
    assert picture_type(b"\x89PNG\r\n\x1a\n...") == "image/png"
    assert picture_type(b"RIFF....WEBP") == "image/webp"
    assert picture_type(b"PK\x03\x04") is None
