"""What the executor may ask for, checked once at the border."""

from __future__ import annotations

from typing import Any, NamedTuple

from executor_service.supervisor.frames import FrameError
from executor_service.supervisor.spawn import Launch, WindowSize

_MAX_NAME_CHARACTERS = 256


class StartRequest(NamedTuple):
    """A command to run."""

    exec_id: str
    digest: str
    """Stands for the whole request: the same id with another digest is another command."""
    launch: Launch
    run_timeout_s: float | None
    output_limit_bytes: int | None
    kill_grace_s: float
    heartbeat_s: float | None
    leave_children: bool
    """Let processes that outlive the first one stay, instead of killing them."""


def start_request(message: dict[str, Any]) -> StartRequest:
    """The request in a START frame."""
    try:
        run_timeout_ms = message.get("run_timeout_ms")
        output_limit_bytes = message.get("output_limit_bytes")
        heartbeat_ms = message.get("heartbeat_ms")
        terminal = message.get("terminal")
        argv = [_text(argument) for argument in message["argv"]]
        if not argv:
            raise FrameError("argv is empty")
        return StartRequest(
            exec_id=_name(message["exec_id"]),
            digest=_name(message["digest"]),
            launch=Launch(
                argv=argv,
                cwd=_text(message.get("cwd") or "."),
                env={_variable(k): _text(v) for k, v in message.get("env", {}).items()},
                terminal=None if terminal is None else window_size(terminal),
                takes_input=bool(message.get("stdin")),
            ),
            run_timeout_s=None if run_timeout_ms is None else int(run_timeout_ms) / 1000,
            output_limit_bytes=None if output_limit_bytes is None else int(output_limit_bytes),
            kill_grace_s=int(message.get("kill_grace_ms", 2000)) / 1000,
            heartbeat_s=None if heartbeat_ms is None else max(100, int(heartbeat_ms)) / 1000,
            leave_children=bool(message.get("leave_children")),
        )
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise FrameError("start request is malformed") from error


def window_size(message: dict[str, Any]) -> WindowSize:
    """The size in a RESIZE frame or a start request."""
    try:
        rows, columns = int(message["rows"]), int(message["columns"])
    except (KeyError, TypeError, ValueError) as error:
        raise FrameError("window size is malformed") from error
    if not (0 < rows < 65536 and 0 < columns < 65536):
        raise FrameError("window size is out of range")
    return WindowSize(rows, columns)


def acked_offsets(message: dict[str, Any]) -> dict[str, list[int]]:
    """What a hello says to have of each command's two streams, by exec id."""
    acked: Any = message.get("acked")
    try:
        offsets = {_name(k): [int(first), int(second)] for k, (first, second) in acked.items()}
    except (AttributeError, TypeError, ValueError) as error:
        raise FrameError("acknowledged offsets are malformed") from error
    if any(offset < 0 for pair in offsets.values() for offset in pair):
        raise FrameError("acknowledged offsets are negative")
    return offsets


def _text(value: object) -> str:
    if not isinstance(value, str) or "\0" in value:
        raise FrameError("text is malformed")
    return value


def _name(value: object) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= _MAX_NAME_CHARACTERS:
        raise FrameError("name is malformed")
    return value


def _variable(value: object) -> str:
    name = _text(value)
    if not name or "=" in name:
        raise FrameError("environment variable name is malformed")
    return name
