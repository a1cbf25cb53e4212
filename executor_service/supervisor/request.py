"""Requests of the executor, checked once on arrival."""

from __future__ import annotations

from typing import Any, NamedTuple

from executor_service.supervisor.frames import FrameError

_MAX_NAME_CHARACTERS = 256


class WindowSize(NamedTuple):
    """Size of a terminal in characters."""

    rows: int
    columns: int


class StartRequest(NamedTuple):
    """A command to run."""

    exec_id: str
    digest: str
    """Identifies the request: the same id with another digest is another command."""
    argv: list[str]
    fallback: str
    """Program to run if the first one does not exist."""
    cwd: str
    env: dict[str, str]
    terminal: WindowSize | None
    stdin: bool
    """Whether input will come."""
    run_timeout_s: float | None
    output_limit_bytes: int | None
    kill_grace_s: float
    heartbeat_s: float
    leave_children: bool
    """Let processes that outlive the first one stay, instead of killing them."""


def start_request(message: dict[str, Any]) -> StartRequest:
    """Return the request in a START frame; only the start itself checks for NUL characters."""
    try:
        request = StartRequest(**message)
        texts: list[object] = [
            request.fallback,
            request.cwd,
            *request.argv,
            *request.env,
            *request.env.values(),
        ]
    except (TypeError, AttributeError) as error:
        raise FrameError("start request is malformed") from error
    if not request.argv or not all(isinstance(text, str) for text in texts):
        raise FrameError("start request is malformed")
    terminal = None if request.terminal is None else window_size(message["terminal"])
    return request._replace(
        exec_id=_name(request.exec_id),
        digest=_name(request.digest),
        cwd=request.cwd or ".",
        terminal=terminal,
    )


def window_size(message: dict[str, Any]) -> WindowSize:
    """Return the size in a RESIZE frame or a start request."""
    try:
        rows, columns = int(message["rows"]), int(message["columns"])
    except (KeyError, TypeError, ValueError) as error:
        raise FrameError("window size is malformed") from error
    if not (0 < rows < 65536 and 0 < columns < 65536):
        raise FrameError("window size is out of range")
    return WindowSize(rows, columns)


def acked_offsets(message: dict[str, Any]) -> dict[str, list[int]]:
    """Return the acknowledged offsets of each command's two streams, by exec id."""
    acked: Any = message.get("acked")
    try:
        offsets = {_name(k): [int(first), int(second)] for k, (first, second) in acked.items()}
    except (AttributeError, TypeError, ValueError) as error:
        raise FrameError("acknowledged offsets are malformed") from error
    if any(offset < 0 for pair in offsets.values() for offset in pair):
        raise FrameError("acknowledged offsets are negative")
    return offsets


def _name(value: object) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= _MAX_NAME_CHARACTERS:
        raise FrameError("name is malformed")
    return value
