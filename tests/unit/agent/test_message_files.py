"""Files of messages, and files that tools have made."""

from typing import Any

import pytest
from pydantic import ValidationError

from agent_service.models.media.failures import MediaFailed
from agent_service.models.pictures import picture_type
from agent_service.records.model import encoded
from agent_service.records.requests import FileKind, MessageFile
from agent_service.records.sandbox import FileStat
from agent_service.storage.uploads import path_of
from agent_service.tools.base import Caller, ToolContext, ToolFailed
from agent_service.tools.media.made_files import attached_by, make_file
from agent_service.tools.media.text_to_speech import TextToSpeechArguments


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


CHAT = {"platform": "telegram", "chat_id": "42"}


class Disk:
    """Files by path."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}

    async def stat(self, path: str) -> FileStat | None:
        return FileStat(path) if path in self.files else None

    async def write(self, path: str, data: bytes) -> None:
        self.files[path] = data


def context(disk: Disk, key: str = "trn_1:1", turn: str = "trn_1", **origin: str) -> ToolContext:
    files: Any = disk
    unused: Any = None
    caller = Caller(turn_id=turn, origin=origin)
    return ToolContext(key, unused, files, unused, unused, unused, None, print, caller=caller)


async def test_a_call_that_is_repeated_finds_its_file() -> None:
    disk, made = Disk(), list[int]()

    async def make() -> bytes:
        made.append(1)
        return b"sound"

    first = await make_file(context(disk), "speech", ".ogg", make)
    assert await make_file(context(disk), "speech", ".ogg", make) == first
    assert len(made) == 1
    await make_file(context(disk, "trn_1:2"), "speech", ".ogg", make)
    assert len(disk.files) == 2


@pytest.mark.parametrize("failure", [MediaFailed("no credit"), None])
async def test_what_was_not_made_is_no_file(failure: MediaFailed | None) -> None:
    async def make() -> bytes:
        if failure is not None:
            raise failure
        return b""

    disk = Disk()
    with pytest.raises(ToolFailed, match="no credit" if failure else "with nothing"):
        await make_file(context(disk), "speech", ".ogg", make)
    assert disk.files == {}


async def test_an_answer_takes_along_what_its_turn_has_made() -> None:
    disk = Disk()

    async def make() -> bytes:
        return b"sound"

    def result(text: str, role: str = "tool") -> bytes:
        return encoded({"role": role, "tool_call_id": "1", "content": text})

    own = await make_file(context(disk, **CHAT), "speech", ".ogg", make)
    other = await make_file(context(disk, "trn_2:1", "trn_2", **CHAT), "speech", ".ogg", make)
    path, *_ = disk.files
    assert attached_by("trn_1", [result(other.text), result(own.text), result(own.text)]) == (path,)
    assert attached_by("trn_1", [result(own.text, "user")]) == ()
    silent = await make_file(context(disk, "trn_1:3", platform="cli"), "speech", ".ogg", make)
    assert attached_by("trn_1", [result(silent.text)]) == ()


@pytest.mark.parametrize("voice", ["..", "a/b", "?x=1", "a\n"])
def test_a_voice_cannot_lead_to_another_address(voice: str) -> None:
    for known in ("", "en_US-lessac-medium", "af_bella+af_sky(2)", "21m00Tcm4TlvDq8ikWAM"):
        assert TextToSpeechArguments(text="a", voice=known).voice == known
    with pytest.raises(ValidationError):
        TextToSpeechArguments(text="a", voice=voice)
