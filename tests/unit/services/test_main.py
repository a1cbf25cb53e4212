"""How the `hermes` process ends."""

import io
import os
import subprocess
import sys
from contextlib import redirect_stdout

import pytest

from services.cli.console import print_json

_COMMAND = """
import atexit, sys
from services.cli.main import main
atexit.register(print, "taken apart")
main()
"""


def test_a_process_ends_when_its_output_is_out() -> None:
    command = [sys.executable, "-c", _COMMAND, "--help"]
    run = subprocess.run(command, check=False, capture_output=True, text=True)
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.startswith("usage: hermes")
    assert "taken apart" in run.stdout  # which is what argparse does, and no command

    run = subprocess.run([*command[:-1], "--version"], check=False, capture_output=True, text=True)
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.startswith("hermes ")
    assert "taken apart" not in run.stdout


@pytest.mark.parametrize("typed", ["help", "help jobs", "help jobs add"])
def test_help_is_a_command(typed: str) -> None:
    command = [sys.executable, "-c", _COMMAND, *typed.split()]
    run = subprocess.run(command, check=False, capture_output=True, text=True)
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.startswith(f"usage: hermes{typed.removeprefix('help')} ")


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        (("--profile", "ann", "memory", "show"), "put the command before --profile"),
        (("memroy", "--json"), "unknown command 'memroy'"),
    ],
)
def test_a_line_without_a_command_is_told_what_it_lacks(typed: tuple[str, ...], told: str) -> None:
    command = [sys.executable, "-c", _COMMAND, *typed]
    run = subprocess.run(command, check=False, capture_output=True, text=True)
    assert (run.returncode, run.stderr) == (2, f"hermes: {told}; see hermes --help\n")


def test_a_reader_that_has_enough_is_no_failure() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _COMMAND, "--version"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141


def test_characters_that_the_output_cannot_have_are_replaced() -> None:
    command = [sys.executable, "-c", _COMMAND, "--help"]
    environ = {**os.environ, "PYTHONIOENCODING": "ascii"}
    run = subprocess.run(command, check=False, capture_output=True, env=environ)
    assert (run.returncode, run.stderr) == (0, b"")
    assert b"usage: hermes COMMAND ?\n" in run.stdout


@pytest.mark.parametrize(
    ("encoding", "written"), [("latin-1", b"\\u20ac"), ("utf-8", b"\xe2\x82\xac")]
)
def test_json_loses_nothing_in_any_encoding(encoding: str, written: bytes) -> None:
    output = io.BytesIO()
    stream = io.TextIOWrapper(output, encoding=encoding, write_through=True)
    with redirect_stdout(stream):
        print_json({"price": "5 €"})
    assert output.getvalue() == b'{"price": "5 ' + written + b'"}\n'
