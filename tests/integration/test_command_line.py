"""How the `hermes` process ends."""

import io
import os
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path

import grpc.aio
import pytest

from gateway_service.servicer.wire import MAX_TEXT_BYTES
from services.cli.chat.command import MAX_QUESTION_BYTES
from services.cli.console import EXIT_FAILURE, EXIT_USAGE
from services.cli.failures import status_of
from services.cli.output import print_json
from services.config.fields import ConfigError, Problem
from services.errors import DETAILS_KEY, HermesError, InvalidArgument, NotFound, Reason, to_status

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


def test_piped_input_that_is_too_long_is_refused_rather_than_cut(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _COMMAND, "chat", "-q", "what is this?"]
    environ = {**os.environ, "HERMES_HOME": str(tmp_path)}
    lines = "a\r\n" * 400_000  # longer than 1 MiB only until the line ends are read
    run = subprocess.run(
        command, check=False, capture_output=True, text=True, env=environ, input=lines
    )
    assert (run.returncode, run.stdout) == (EXIT_USAGE, "")
    assert "are together at most 1 MiB" in run.stderr
    assert not list(tmp_path.glob("state/*")), "nothing was started for it"
    assert MAX_QUESTION_BYTES == MAX_TEXT_BYTES


def _failed_call(error: HermesError) -> grpc.aio.AioRpcError:
    status, none = to_status(error), grpc.aio.Metadata()
    details = grpc.aio.Metadata((DETAILS_KEY, status.SerializeToString()))
    return grpc.aio.AioRpcError(error.reason.status, none, details, error.message, None)


def test_only_what_was_typed_wrong_counts_as_usage() -> None:
    schedule = InvalidArgument("no schedule", reason=Reason.SCHEDULE_INVALID)
    typed, set_wrong = (Problem(key, "", "is wrong") for key in ("--listen", "agent.max_turns"))
    for usage in (InvalidArgument("it is wrong"), ConfigError([typed]), _failed_call(schedule)):
        assert status_of(usage) == EXIT_USAGE
    for failure in (
        NotFound("it is not there"),
        ConfigError([set_wrong]),
        _failed_call(InvalidArgument("what the hub has is wrong")),
    ):
        assert status_of(failure) == EXIT_FAILURE


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


def test_a_path_that_is_no_text_is_told_in_a_line(tmp_path: Path) -> None:
    home = os.fsencode(tmp_path) + b"/\xff"
    command = [sys.executable, "-c", _COMMAND, "sessions", "list"]
    environ = {**os.environb, b"HERMES_HOME": home}
    run = subprocess.run(command, check=False, capture_output=True, env=environ)
    assert run.returncode == EXIT_FAILURE
    assert run.stderr.count(b"\n") == 1
    assert b"is not UTF-8 text" in run.stderr
