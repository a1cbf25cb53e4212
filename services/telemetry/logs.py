"""Log lines: JSON or text, with the ids of the work, without secrets.

A thread writes them, so that a slow disk or a full pipe never blocks the event loop. It passes
everything through the `Redactor`.
"""

import json
import logging
import logging.handlers
import os
import re
import sys
import threading
import time
import traceback
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from datetime import UTC, datetime
from pathlib import Path
from queue import SimpleQueue
from types import MappingProxyType
from typing import Any, TextIO

from services.home.paths import HomeError
from services.redaction.redactor import Redactor, changed_texts
from services.telemetry.config import LogConfig

# The most lines that wait to be written; more are dropped and counted.
_MAX_WAITING = 10_000
_CLOSE_TIMEOUT_S = 2.0
_MAX_STACK_CHARS = 16_000

# Libraries that are too verbose at "info".
_TALKATIVE = (
    *("aioimaplib", "aiosmtplib", "apscheduler", "discord", "docker", "httpcore", "httpcore2"),
    *("httpx", "httpx2", "nio", "openai", "paramiko", "telegram", "urllib3"),
)

_STANDARD_ATTRIBUTES = frozenset(
    {*vars(logging.makeLogRecord({})), "message", "asctime", "taskName", "ids"}
)
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")

_IDS: ContextVar[Mapping[str, str]] = ContextVar("log_ids", default=MappingProxyType({}))


@contextmanager
def bind(**ids: str) -> Generator[None]:
    """Add ids such as `turn_id` to every line logged inside, also by tasks started there."""
    token = _IDS.set({**_IDS.get(), **ids})
    try:
        yield
    finally:
        _IDS.reset(token)


def bound_ids() -> Mapping[str, str]:
    """Return the ids that are bound here."""
    return _IDS.get()


@contextmanager
def logging_to(
    config: LogConfig,
    redactor: Redactor,
    *,
    service: str,
    file: Path | None = None,
    stream: TextIO | None = None,
) -> Generator[None]:
    """Write the process's log while inside, to a rotating file or to a stream (standard error)."""
    target = _file(file, config) if file else _QuietStream(stream or sys.stderr)
    kind = JsonFormatter if config.format == "json" else TextFormatter
    target.setFormatter(kind(service, redactor))
    root = logging.getLogger()
    level = logging.getLevelNamesMapping()[config.level.upper()]
    levels = {root: level} | {
        logging.getLogger(name): max(level, logging.WARNING) if level > logging.DEBUG else level
        for name in _TALKATIVE
    }
    # The user of a broken connection reports it, so the pool need not.
    levels[logging.getLogger("sqlalchemy.pool")] = logging.CRITICAL
    before = {logger: logger.level for logger in levels}
    handler = QueuedHandler(target)
    # gRPC complains of a client that has died as its call ended.
    handler.addFilter(lambda record: "ExecuteBatchError raised in core" not in str(record.msg))
    root.addHandler(handler)
    try:
        for logger, wanted in levels.items():
            logger.setLevel(wanted)
        yield
    finally:
        root.removeHandler(handler)
        for logger, wanted in before.items():
            logger.setLevel(wanted)
        handler.close()


class QueuedHandler(logging.Handler):
    """Hands each record, with the bound ids, to a thread that writes it."""

    def __init__(self, target: logging.Handler) -> None:
        super().__init__()
        self._target = target
        self._waiting: SimpleQueue[logging.LogRecord | None] = SimpleQueue()
        self._dropped = 0
        self._abandoned = False
        self._thread = threading.Thread(target=self._write, name="log", daemon=True)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        if self._waiting.qsize() >= _MAX_WAITING:
            self._dropped += 1
            return
        if self._dropped:
            lost, self._dropped = self._dropped, 0
            text = f"{lost} log lines were dropped because they came too fast"
            self._put(
                logging.makeLogRecord(
                    {
                        "name": __name__,
                        "levelno": logging.WARNING,
                        "levelname": "WARNING",
                        "msg": text,
                    }
                )
            )
        self._put(record)

    def close(self) -> None:
        """Write what is waiting; a reader that takes nothing delays this by two seconds."""
        self._waiting.put(None)
        self._thread.join(_CLOSE_TIMEOUT_S)
        self._abandoned = self._thread.is_alive()
        if not self._abandoned:
            with suppress(OSError):  # its buffer cannot be written
                self._target.close()
        super().close()

    def _put(self, record: logging.LogRecord) -> None:
        # Arguments may change after the call, so format the text now.
        fixed = logging.makeLogRecord(
            {**vars(record), "msg": _message(record), "args": None, "ids": _IDS.get()}
        )
        self._waiting.put(fixed)

    def _write(self) -> None:
        while (record := self._waiting.get()) is not None and not self._abandoned:
            self._target.handle(record)


class _Formatter(logging.Formatter):
    def __init__(self, service: str, redactor: Redactor) -> None:
        super().__init__()
        self._service = service
        self._redactor = redactor


class JsonFormatter(_Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        fields = fields_of(record, self._service)
        line = json.dumps(fields)
        clean = self._redactor.redact(line)
        if clean == line and "\\" not in line:
            return line
        # Each part alone: in the whole line a secret may begin or end inside an escape.
        line = json.dumps(changed_texts(fields, self._redactor.redact))
        # Also as a whole: a name may mark its value as a secret.
        clean = self._redactor.redact(line)
        with suppress(ValueError):
            json.loads(clean)
            line = clean
        return line


class TextFormatter(_Formatter):
    """Lines for a person at a terminal."""

    def format(self, record: logging.LogRecord) -> str:
        fields = fields_of(record, self._service)
        at = time.strftime("%H:%M:%S", time.localtime(record.created))
        shown = ("time", "level", "service", "event", "logger", "exception")
        rest = " ".join(f"{name}={value}" for name, value in fields.items() if name not in shown)
        line = (
            f"{at} {record.levelname:<7} {fields['service']:<9} {fields['event']}  {rest}".rstrip()
        )
        if "exception" in fields:
            line = f"{line}\n{fields['exception']['stack'].rstrip()}"
        # Foreign text may contain terminal escape sequences.
        return _CONTROL.sub(lambda match: repr(match[0])[1:-1], self._redactor.redact(line))


def fields_of(record: logging.LogRecord, service: str) -> dict[str, Any]:
    """Return the fields of a line in order."""
    ids: Mapping[str, str] = getattr(record, "ids", {})
    package, _, _ = record.name.partition(".")
    own = package.removesuffix("_service") if package.endswith("_service") else service
    fields: dict[str, Any] = {
        "time": datetime.fromtimestamp(record.created, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "level": record.levelname.lower(),
        "service": ids.get("service", own),
        "event": _message(record),
        "logger": record.name,
        **{name: value for name, value in ids.items() if name != "service"},
    }
    for name, value in vars(record).items():
        if name not in _STANDARD_ATTRIBUTES and name not in fields:
            fields[name] = value if isinstance(value, (int, float)) else str(value)
    if record.exc_info and record.exc_info[1] is not None:
        fields["exception"] = _exception(record.exc_info[1])
    return fields


def _exception(error: BaseException) -> dict[str, str]:
    kind = type(error)
    return {
        "type": f"{kind.__module__}.{kind.__qualname__}",
        "message": str(error),
        "stack": "".join(traceback.format_exception(error))[-_MAX_STACK_CHARS:],
    }


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except (AttributeError, KeyError, TypeError, ValueError):
        return f"{record.msg} {record.args!r}"


class _Quiet(logging.Handler):
    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802
        """Ignore errors: a full disk, or a reader that went away, would cause one at every line."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handleError(record)


class _QuietStream(_Quiet, logging.StreamHandler[TextIO]):
    pass


class _PrivateFile(_Quiet, logging.handlers.RotatingFileHandler):
    _formatted: tuple[logging.LogRecord, str] | None = None

    def format(self, record: logging.LogRecord) -> str:
        # The handler asks twice, first for the length of the line.
        if self._formatted is None or self._formatted[0] is not record:
            self._formatted = record, super().format(record)
        return self._formatted[1]

    def _open(self) -> Any:
        return open(
            self.baseFilename,
            self.mode,
            encoding="utf-8",
            opener=lambda path, flags: os.open(path, flags, 0o600),
        )


def _file(path: Path, config: LogConfig) -> _PrivateFile:
    try:
        return _PrivateFile(path, maxBytes=config.max_file_bytes, backupCount=config.kept_files)
    except OSError as error:
        raise HomeError(f"the log {path} cannot be written: {error.strerror}") from None
