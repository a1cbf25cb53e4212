"""Files that a message names after an @."""

from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path

import pytest

from services.cli.chat.attachments import find
from services.errors import InvalidArgument


@pytest.fixture(autouse=True)
def folder(tmp_path: Path) -> Iterator[None]:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "main.py").write_text("one\ntwo\n")
    with chdir(tmp_path):
        yield


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("explain @src/main.py", ["main.py"]),
        ("explain @src/main.py:2, please", ["main_2-2.py"]),
        ("ask @ann, @john.doe, @types/node, @ann@example.org or ann@example.org", []),
        ("@property is `@src/mian.py`; 5 @ 3", []),
        ("!cat @src/mian.py", []),
        ("/skill @src/mian.py", []),
    ],
)
def test_files_are_told_from_handles_and_mails(text: str, named: list[str]) -> None:
    sent, found = find(text)
    assert (sent, [file.name for file in found]) == (text, named)


@pytest.mark.parametrize(
    "name", ["src/mian.py", "mian.py", "src/main", "./main", "/nowhere", "src/mian.py:1-2", '"a b"']
)
def test_a_mistyped_file_is_told(name: str) -> None:
    with pytest.raises(InvalidArgument, match="there is no file"):
        find(f"explain @{name}")
