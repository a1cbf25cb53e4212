"""What a log line says, what it must never say, and that writing it holds nobody up."""

import asyncio
import io
import json
import logging
import os
import re
import stat
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.home.paths import HomeError
from services.redaction.redactor import MASK, Redactor
from services.telemetry.config import LogConfig
from services.telemetry.logs import bind, bound_ids, logging_to

log = logging.getLogger("agent_service.turns.service")


@contextmanager
def logged(
    *secrets: str, config: LogConfig | None = None, service: str = "hermes"
) -> Generator[list[str]]:
    """Collect the lines that are logged inside."""
    stream = io.StringIO()
    lines: list[str] = []
    with logging_to(config or LogConfig(), Redactor(secrets), service=service, stream=stream):
        yield lines
    lines.extend(stream.getvalue().splitlines())


def one(lines: list[str]) -> dict[str, Any]:
    (line,) = lines
    return json.loads(line)


def test_a_client_that_dies_as_its_call_ends_is_no_error() -> None:
    with logged() as lines:
        grpc = logging.getLogger("grpc._cython.cygrpc")
        grpc.error("ExecuteBatchError raised in core by servicer method [%s]", "/x/Y")
        grpc.error("Unexpected [%s] raised by servicer method", "ValueError")
    assert "Unexpected" in one(lines)["event"]


def test_a_line_has_the_ids_of_its_work() -> None:
    with logged() as lines, bind(turn_id="trn_1", session_id="20260102_030405_ab12cd"):
        log.warning("step %d of %s", 3, "four", extra={"duration_s": 0.25, "path": Path("/x")})
    line = one(lines)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", line.pop("time"))
    assert line == {
        "level": "warning",
        "service": "agent",
        "event": "step 3 of four",
        "logger": "agent_service.turns.service",
        "turn_id": "trn_1",
        "session_id": "20260102_030405_ab12cd",
        "duration_s": 0.25,
        "path": "/x",
    }


def test_ids_belong_to_the_task_that_bound_them() -> None:
    async def turn(turn_id: str) -> None:
        with bind(turn_id=turn_id):
            await asyncio.sleep(0)
            with bind(exec_id=f"exc_{turn_id}"):
                await asyncio.create_task(command())
            log.info("done")

    async def command() -> None:
        await asyncio.sleep(0)
        log.info("ran")

    async def main() -> None:
        await asyncio.gather(turn("a"), turn("b"))
        assert not bound_ids()

    with logged() as lines:
        asyncio.run(main())
    found = sorted((x["event"], x["turn_id"], x.get("exec_id")) for x in map(json.loads, lines))
    assert found == [
        ("done", "a", None),
        ("done", "b", None),
        ("ran", "a", "exc_a"),
        ("ran", "b", "exc_b"),
    ]


def test_a_line_names_its_service() -> None:
    with logged(service="executor") as lines:
        logging.getLogger("gateway_service.turns.inbox").info("a")
        logging.getLogger("services.server").info("b")
        with bind(service="scheduler"):
            logging.getLogger("services.server").info("c")
    assert [json.loads(line)["service"] for line in lines] == ["gateway", "executor", "scheduler"]


def test_an_exception_is_a_field() -> None:
    with logged() as lines:
        error = ValueError("outer")
        error.__cause__ = KeyError("inner")
        log.error("it failed", exc_info=error)
    exception = one(lines)["exception"]
    assert (exception["type"], exception["message"]) == ("builtins.ValueError", "outer")
    assert "KeyError: 'inner'" in exception["stack"]
    assert exception["stack"].endswith("ValueError: outer\n")


def test_text_is_for_people_and_a_terminal_obeys_nothing_in_it() -> None:
    with logged(config=LogConfig(format="text")) as lines, bind(turn_id="trn_1"):
        log.info("red \x1b[31m and \x9b31m")
        log.error("failed", exc_info=ValueError("why"))
    assert re.fullmatch(
        r"\d\d:\d\d:\d\d INFO    agent     red \\x1b\[31m and \\x9b31m  turn_id=trn_1", lines[0]
    )
    assert lines[-1] == "ValueError: why"


def plant(canaries: list[str]) -> None:
    """Log each value in every place that a line has."""
    for canary in canaries:
        log.info("plain %s", canary)
        log.info("argument %s", {"key": canary})
        log.info("extra", extra={"token": canary, "list": [canary], "n": 1})
        log.info(json.dumps({"body": {"key": canary}}))
        log.error("failed", exc_info=ValueError(f"with {canary}"))
        with bind(request_id=canary):
            log.info("bound")


@pytest.mark.parametrize("kind", ["json", "text"])
def test_thirty_canaries_are_planted_and_none_is_found(kind: Any, tmp_path: Path) -> None:
    canaries = [f'canary-{n:02}/"{"é" * (n % 3)}\\+{n * 7919:x}' for n in range(30)]
    file = tmp_path / "hermes.log"
    config = LogConfig(format=kind)
    with logging_to(config, Redactor(canaries), service="hermes", file=file):
        plant(canaries)
    text = file.read_text()
    assert text.count(MASK) >= 30 * 7
    found = [re.findall(r"canary.{6}", line) for line in text.splitlines()]
    assert [each for line in found for each in line] == []
    if kind == "json":
        events = [json.loads(line)["event"] for line in text.splitlines()]
        assert len(events) == 30 * 6
        assert events[0] == f"plain {MASK}"


@given(secret=st.text(min_size=8, max_size=20), before=st.text(max_size=10), shape=st.booleans())
@settings(max_examples=40, deadline=None)
def test_a_line_without_its_secret_is_still_json(secret: str, before: str, shape: bool) -> None:
    secret = secret.strip()
    with logged(*([] if shape else [secret])) as lines:
        text = f"api_key={secret}1234567890abcdef" if shape else secret
        log.info("%s%s", before, text, extra={"api_token": text})
    line = one(lines)
    assert line["level"] == "info"
    if len(secret) >= 8 and not shape:
        assert secret not in line["event"].replace(MASK, "")


def test_a_file_is_private_and_rotates(tmp_path: Path) -> None:
    config = LogConfig(max_file_bytes=65_536, kept_files=2)
    file = tmp_path / "hermes.log"
    with logging_to(config, Redactor(), service="hermes", file=file):
        for _ in range(400):
            log.info("x" * 1000)
    files = sorted(tmp_path.iterdir())
    assert [each.name for each in files] == ["hermes.log", "hermes.log.1", "hermes.log.2"]
    assert all(each.stat().st_size <= 65_536 for each in files)
    assert all(stat.S_IMODE(each.stat().st_mode) == 0o600 for each in files)


def test_a_reader_that_never_reads_does_not_keep_the_process() -> None:
    reading, writing = os.pipe()
    stream = os.fdopen(writing, "w")
    with logging_to(LogConfig(), Redactor(), service="hermes", stream=stream):
        (writer,) = (thread for thread in threading.enumerate() if thread.name == "log")
        for _ in range(2_000):
            log.info("x" * 100)
    assert writer.is_alive()
    os.close(reading)
    writer.join()
    close_broken(stream)


def close_broken(stream: TextIO) -> None:
    with pytest.raises(BrokenPipeError):
        stream.close()


def test_a_full_disk_is_borne_in_silence(capfd: pytest.CaptureFixture[str]) -> None:
    with logging_to(LogConfig(), Redactor(), service="hermes", file=Path("/dev/full")):
        log.info("nobody reads this")
    assert capfd.readouterr() == ("", "")


def test_a_file_that_cannot_be_opened_is_one_line(tmp_path: Path) -> None:
    inside = logging_to(LogConfig(), Redactor(), service="x", file=tmp_path / "no" / "x.log")
    with pytest.raises(HomeError, match=r"the log .*x\.log cannot be written: No such file"):
        inside.__enter__()
