"""Of what is piped into a command no more is read than tells that it is too much."""

from pathlib import Path

import pytest

from services.cli.standard_input import STANDARD, read_up_to


def test_a_file_is_read_whole_or_one_byte_further(tmp_path: Path) -> None:
    file = tmp_path / "x"
    file.write_bytes(b"abcd")
    assert [read_up_to(file, most) for most in (2, 3, 4, 9)] == [b"abc", *[b"abcd"] * 3]
    with pytest.raises(FileNotFoundError):
        read_up_to(tmp_path / "gone", 9)
    assert Path("-") == STANDARD
