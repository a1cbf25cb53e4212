"""The frames between the executor and a supervisor, the same code at both ends.

A frame is a header (payload length, kind, id, CRC-32) and a payload. The checksum covers the
header and the payload, or only the first and last bytes of a long payload: enough to notice lost or
foreign bytes in the stream. Sockets, pipes, TLS and SSH keep each byte intact.

The executor chooses the id, which names a command or a file transfer; 0 is the connection itself.
Streams out of the box have kinds of their own, and ascending ids chosen by the supervisor. Control
payloads are JSON objects; stream payloads are a small binary head and raw bytes.
"""

from __future__ import annotations

import struct
import zlib

from executor_service.supervisor.light import from_json, to_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterator, Union

    Buffer = Union[bytes, bytearray, memoryview]

PROTOCOL_VERSION = 4
MAX_DATA_BYTES = 64 * 1024
MAX_OUTPUT_BYTES = 256 * 1024
"""Of a command in one frame, as each costs the executor as much as copying so many bytes."""
MAX_REPLY_BYTES = MAX_OUTPUT_BYTES + 64
MAX_REQUEST_BYTES = 4 * 1024 * 1024
WINDOW_BYTES = 1024 * 1024
"""Output of one command that may be on its way without having been acknowledged."""
STDIN_WINDOW_BYTES = 256 * 1024
"""Input of one command that the supervisor holds until the command reads it."""
DOWNLOAD_WINDOW_BYTES = 512 * 1024
"""Bytes of a file that may be on their way without having been acknowledged."""
STREAM_WINDOW_BYTES = 128 * 1024
"""Bytes of one direction of a stream out of the box that may be on their way, likewise."""
MAX_STREAMS = 64
"""Streams out of one box at a time."""

REMEMBERED = b"1"
"""What a supervisor that says when it is ready has to hear before it serves."""

# executor -> supervisor
HELLO, START, STDIN, RESIZE, SIGNAL, CANCEL, ACK, FORGET, PING = range(1, 10)
FILE, FILE_DATA, FILE_ACK, FILE_CANCEL = range(10, 14)
PROXY, STREAM_DATA, STREAM_ACK, STREAM_END, STREAM_RESET = range(14, 19)
FILE_REQUESTS = frozenset(range(FILE, FILE_CANCEL + 1))
PROXY_REQUESTS = frozenset(range(PROXY, STREAM_RESET + 1))
REQUESTS = frozenset(range(HELLO, STREAM_RESET + 1))
# supervisor -> executor
READY, DENIED, COMMAND, START_FAILED, OUTPUT, STDIN_ACK, EXITED, PONG = range(64, 72)
FILE_DONE, FILE_FAILED, FILE_BYTES = range(72, 75)
PROXY_SET, STREAM_OPENED, STREAM_BYTES, STREAM_TAKEN, STREAM_ENDED, STREAM_GONE = range(75, 81)
REPLIES = frozenset(range(READY, STREAM_GONE + 1))

HEADER = struct.Struct("!IBII")
"""The same in every version, as ends of different ones have to tell each other so."""
_CHECKED = struct.Struct("!IBI")
_END_BYTES = 1024
"""Of each end of a payload: to sum up all of it is a tenth of what moving much output costs."""
OUTPUT_HEAD = struct.Struct("!BQ")
"""Of OUTPUT and ACK: file descriptor (1 or 2), byte offset."""
STDIN_HEAD = struct.Struct("!QB")
"""Of STDIN: byte offset, 1 when the input ends after these bytes."""
STDIN_ACK_BODY = struct.Struct("!Q")
"""Of STDIN_ACK: bytes that the command has taken."""
FILE_HEAD = struct.Struct("!Q")
"""Of FILE_DATA, FILE_BYTES and FILE_ACK: byte offset."""
STREAM_HEAD = struct.Struct("!Q")
"""Of STREAM_DATA, STREAM_BYTES, STREAM_ACK and STREAM_TAKEN: byte offset."""


class FrameError(ValueError):
    """The other end sent something that is not a frame of this protocol."""


def header(kind: int, ident: int, *parts: Buffer) -> bytes:
    """Return the header of a frame whose payload is the concatenation of parts."""
    size = sum(map(len, parts))
    return HEADER.pack(size, kind, ident, _checksum(size, kind, ident, *parts))


def _checksum(size: int, kind: int, ident: int, *parts: Buffer) -> int:
    if size > 2 * _END_BYTES:
        first = b"".join(memoryview(part)[:_END_BYTES] for part in parts)[:_END_BYTES]
        last = b"".join(memoryview(part)[-_END_BYTES:] for part in parts)[-_END_BYTES:]
        parts = (first, last)
    crc = zlib.crc32(_CHECKED.pack(size, kind, ident))
    for part in parts:
        crc = zlib.crc32(part, crc)
    return crc


def pack(kind: int, ident: int, payload: Buffer = b"") -> bytes:
    """Return a whole frame."""
    return header(kind, ident, payload) + payload


def pack_json(kind: int, ident: int, message: dict[str, Any]) -> bytes:
    """Return a whole control frame; text that was not UTF-8 survives as lone surrogates."""
    return pack(kind, ident, to_json(message))


def read_json(payload: Buffer) -> dict[str, Any]:
    """Return the object in a control frame; FrameError if it is not one."""
    try:
        message: Any = from_json(bytes(payload))
    except (ValueError, RecursionError) as error:
        raise FrameError("control frame is not JSON") from error
    if not isinstance(message, dict):
        raise FrameError("control frame is not an object")
    return message  # pyright: ignore[reportUnknownVariableType]


def split_head(head: struct.Struct, payload: memoryview) -> tuple[tuple[int, ...], memoryview]:
    """Return the binary head of a stream frame and the bytes after it."""
    if len(payload) < head.size:
        raise FrameError("frame is too short")
    return head.unpack_from(payload), payload[head.size :]


class FrameReader:
    """Cuts a byte stream into frames and refuses invalid ones."""

    def __init__(self, kinds: frozenset[int], max_payload_bytes: int) -> None:
        self._kinds = kinds
        self.max_payload_bytes = max_payload_bytes
        self._kept: list[bytes] = []
        self._kept_bytes = 0
        self._wanted_bytes = HEADER.size

    def feed(self, data: bytes) -> Iterator[tuple[int, int, memoryview]]:
        """Yield kind, id and payload of each complete frame; FrameError at the first bad one.

        The buffer behind a payload never changes afterwards.
        """
        self._kept.append(data)
        self._kept_bytes += len(data)
        if self._kept_bytes < self._wanted_bytes:
            return
        whole = data if len(self._kept) == 1 else b"".join(self._kept)
        view = memoryview(whole)
        start = 0
        self._wanted_bytes = HEADER.size
        while len(view) - start >= HEADER.size:
            size, kind, ident, crc = HEADER.unpack_from(view, start)
            if kind not in self._kinds or size > self.max_payload_bytes:
                raise FrameError("frame of unknown kind or size")
            end = start + HEADER.size + size
            if end > len(view):
                self._wanted_bytes = HEADER.size + size
                break
            payload = view[start + HEADER.size : end]
            if _checksum(size, kind, ident, payload) != crc:
                raise FrameError("frame checksum is wrong")
            start = end
            yield kind, ident, payload
        rest = whole[start:]
        self._kept = [rest] if rest else []
        self._kept_bytes = len(rest)
