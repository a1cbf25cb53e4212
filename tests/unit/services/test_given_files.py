"""Of what is piped into a command no more is read than tells that it is too much."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from services.cli.job_files import MAX_FILE_BYTES
from services.cli.job_options import MAX_SCRIPT_BYTES
from services.cli.standard_input import STANDARD, read_up_to


@pytest.mark.parametrize(
    ("command", "most"),
    [
        (("import", "-"), MAX_FILE_BYTES),
        (("add", "every 2h", "look", "--script", "-"), MAX_SCRIPT_BYTES),
    ],
)
def test_a_command_ends_when_too_much_is_piped_in(
    tmp_path: Path, command: tuple[str, ...], most: int
) -> None:
    hermes = [Path(sys.executable).with_name("hermes"), "jobs", *command]
    environ = {**os.environ, "HERMES_HOME": str(tmp_path)}
    with subprocess.Popen(
        hermes, env=environ, stdin=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0
    ) as running:
        assert running.stdin is not None
        assert running.stderr is not None
        # It stays open, as of a program that never ends.
        left = most + 1
        while left:
            left -= running.stdin.write(b" " * left)
        assert f"more than {most} bytes".encode() in running.stderr.read()
        assert running.wait() == 1


def test_a_file_is_read_whole_or_one_byte_further(tmp_path: Path) -> None:
    file = tmp_path / "x"
    file.write_bytes(b"abcd")
    assert [read_up_to(file, most) for most in (2, 3, 4, 9)] == [b"abc", *[b"abcd"] * 3]
    with pytest.raises(FileNotFoundError):
        read_up_to(tmp_path / "gone", 9)
    assert Path("-") == STANDARD
