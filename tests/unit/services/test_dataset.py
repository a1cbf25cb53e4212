"""Data sets of batches: what is wrong with their lines."""

from pathlib import Path

import pytest

from services.errors import InvalidArgument
from services.home.batches.dataset import read_dataset


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "empty.txt").touch()
    with (tmp_path / "large.bin").open("wb") as file:
        file.truncate(50_000_001)
    for number in range(21):
        (tmp_path / f"{number}.txt").write_text("x")
    return tmp_path


FILES = ", ".join(f'"{number}.txt"' for number in range(21))


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b'{"prompt": "hello"', "truncated"),
        (b"[" * 100_000, "array"),
        (b'["hello"]', "array"),
        (b'{"prompt": 5}', "prompt"),
        (b'{"prompt": "\xff"}', "utf-8"),
        (b'{"prompt": "\\ud800 half of a pair"}', "surrogate"),
        (b'{"prompt": " \\n "}', "1 to 262,144 bytes"),
        (b'{"prompt": "' + b"x" * 262_145 + b'"}', "1 to 262,144 bytes"),
        (b'{"prompt": "a", "id": "a b"}', "id is not an id"),
        (b'{"prompt": "a", "promt": "b"}', "promt"),
        (b'{"prompt": "a", "tags": [""]}', "tags"),
        ('{"prompt": "a", "setup": "' + "ä" * 40_000 + '"}', "65,536 bytes"),
        (b'{"prompt": "a", "check": "\\u0000"}', "no nul"),
        (b'{"prompt": "a", "files": ["missing.txt"]}', "there is no file"),
        (b'{"prompt": "a", "files": ["."]}', "there is no file"),
        (b'{"prompt": "a", "files": ["/etc/passwd"]}', "not in the folder of the data set"),
        (b'{"prompt": "a", "files": ["a/../../b"]}', "not in the folder of the data set"),
        (b'{"prompt": "a", "image": "a/../../b.png"}', "not in the folder of the data set"),
        (b'{"prompt": "a", "image": "0.txt"}', "0.txt is no picture"),
        (b'{"prompt": "a", "files": ["loop"]}', "there is no file"),
        (b'{"prompt": "a", "files": ["a\\u0000b"]}', "there is no file"),
        (b'{"prompt": "a", "files": ["link.txt"]}', "leads out of the folder of the data set"),
        (b'{"prompt": "a", "files": ["' + b"a" * 300 + b'"]}', "file name too long"),
        (b'{"prompt": "a", "files": ["empty.txt"]}', "empty.txt must have 1 to 50,000,000"),
        (b'{"prompt": "a", "files": ["large.bin"]}', "large.bin must have 1 to 50,000,000"),
        (f'{{"prompt": "a", "files": [{FILES}]}}', "up to 20 files"),
        (b'{"prompt": "a", "check_files": ["0.txt"]}', "are for a setup and a check"),
        (b'{"prompt": "a", "setup_files": ["0.txt"], "check": "x"}', "are for a setup and a check"),
        (b'{"prompt": "a", "check_files": ["/etc/passwd"], "check": "x"}', "not in the folder"),
        (f'{{"prompt": "a", "setup_files": [{FILES}], "setup": "x"}}', "up to 20 files"),
        (b'{"prompt": "a", "id": "2"}', "line 2 has the id 2, too"),
    ],
)
def test_a_line_that_cannot_be_used_is_named_and_others_are_read(
    folder: Path, line: bytes | str, problem: str
) -> None:
    encoded = line.encode() if isinstance(line, str) else line
    path = folder / "items.jsonl"
    (folder / "link.txt").symlink_to("/etc/passwd")
    (folder / "loop").symlink_to("loop")
    path.write_bytes(
        b'\xef\xbb\xbf\n{"prompt": "hello"}\n' + encoded + b'\n{"prompt": "bye", "id": "x"}'
    )
    items, problems = read_dataset(path)
    assert [(item.id, item.prompt) for item in items] == [("2", "hello"), ("x", "bye")]
    (said,) = problems
    assert said.startswith(f"{path}:3: ")
    assert problem in said.lower()


def test_a_file_that_cannot_be_read_is_named(folder: Path) -> None:
    for name, problem in (("none.jsonl", "No such file"), (".", "Is a directory")):
        with pytest.raises(InvalidArgument, match=f"cannot be read: {problem}"):
            read_dataset(folder / name)
