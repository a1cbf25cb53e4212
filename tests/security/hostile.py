"""A supervisor that has been taken over: a command whose id begins with `evil-` has it say things.

This text is appended to the supervisor module `server`, so that what it says comes from inside a
real box, over whatever reaches it.
"""

import io
import zipfile
from pathlib import Path

from executor_service.backends.supervisor_zipapp import build_zipapp

_CODE = r"""
import random as _random

_honest_start = Supervisor._start
_MANY = b"x" * frames.MAX_DATA_BYTES


def _running(ident, exec_id, **changed):
    state = {"exec_id": exec_id, "digest": "", "state": "running", "acked": [0, 0],
        "stdin_received": 0, "stdin_taken": 0, **changed}
    return frames.pack_json(frames.COMMAND, ident, state)


def _output(ident, offset, data=b"x", number=1):
    return frames.pack(frames.OUTPUT, ident, frames.OUTPUT_HEAD.pack(number, offset) + data)


def _exited(ident, **changed):
    exit_ = {"code": 0, "signal": None, "reason": "EXITED", "totals": [0, 0], "survivors": 0,
        "duration_ms": 1, **changed}
    return frames.pack_json(frames.EXITED, ident, exit_)


def _refused(ident, message):
    return frames.pack_json(frames.START_FAILED, ident, {"code": "NOT_FOUND", "message": message})


def _at_random(seed, ident, exec_id):
    chance = _random.Random(seed)
    yield _running(ident, exec_id)
    for _ in range(chance.randrange(1, 8)):
        whose = chance.choice([ident, 0, ident + 1, chance.getrandbits(32)])
        said = chance.choice([
            chance.randbytes(chance.randrange(0, 200)),
            json.dumps(chance.choice([[], {}, None, {"reason": 1}, {"commands": -1}])).encode(),
            frames.OUTPUT_HEAD.pack(chance.randrange(4), chance.getrandbits(60)) + b"data",
        ])
        yield frames.pack(chance.choice(sorted(frames.REPLIES)), whose, said)


def _says(name, ident, exec_id):
    running = _running(ident, exec_id)
    if name.startswith("random-"):
        return _at_random(name, ident, exec_id)
    return {
        "garbage": lambda: [_random.Random(0).randbytes(5000)],
        "wrong-checksum": lambda: [frames.HEADER.pack(2, frames.PONG, 1, 7) + b"{}"],
        "endless-frame": lambda: [frames.HEADER.pack(2**32 - 1, frames.OUTPUT, ident, 0)],
        "unknown-kind": lambda: [frames.pack(200, ident, b"{}")],
        "no-json": lambda: [frames.pack(frames.COMMAND, ident, b"{")],
        "deep-json": lambda: [frames.pack(frames.COMMAND, ident, b"[" * 60000)],
        "huge-number": lambda: [_running(ident, exec_id, stdin_taken=10**40)],
        "wrong-types": lambda: [_running(ident, exec_id, acked={"a": None})],
        "unknown-command": lambda: [_output(ident + 1000, 0)],
        "nobody-s-command": lambda: [_running(ident + 1000, "stolen")],
        "named-twice": lambda: [running, running],
        "gap": lambda: [running, _output(ident, 1 << 40)],
        "again": lambda: [running, _output(ident, 0), _output(ident, 0)],
        "third-stream": lambda: [running, _output(ident, 0, number=3)],
        "flood": lambda: [running, *(_output(ident, n * len(_MANY), _MANY) for n in range(600))],
        "wrong-totals": lambda: [running, _exited(ident, totals=[1 << 50, 0])],
        "wrong-reason": lambda: [running, _exited(ident, reason="BECAUSE")],
        "ended-twice": lambda: [running, _exited(ident), _exited(ident)],
        "second-welcome": lambda: [frames.pack_json(frames.READY, 0, {"commands": 0})],
        "late-refusal": lambda: [frames.pack_json(frames.DENIED, 0, {"reason": "STALE_EPOCH"})],
        "no-ping": lambda: [frames.pack_json(frames.PONG, 12345, {})],
        "no-file": lambda: [frames.pack(frames.FILE_BYTES, 999, frames.FILE_HEAD.pack(0) + b"x")],
        "odd-text": lambda: [_refused(ident, "\ud800 \0 \x1b[2J")],
        "long-text": lambda: [_refused(ident, "x" * 4096)],
    }[name]()


def _start(self, ident, payload):
    exec_id = frames.read_json(payload)["exec_id"]
    if not exec_id.startswith("evil-"):
        return _honest_start(self, ident, payload)
    for said in _says(exec_id[5:], ident, exec_id):
        self._context.connection.send(said)


Supervisor._start = _start
"""

BREAKS = (
    *("garbage", "wrong-checksum", "unknown-kind", "no-json", "deep-json"),
    *("endless-frame", "huge-number", "wrong-types", "unknown-command", "nobody-s-command"),
    *("named-twice", "gap", "again", "third-stream", "wrong-totals", "wrong-reason"),
    *("ended-twice", "second-welcome", "late-refusal", "no-ping", "no-file"),
)
"""What breaks the protocol, so that nothing that this supervisor says is believed any more."""
FLOOD = "flood"
"""More than was asked for, which cannot be told where the executor stores it fast enough."""
ODDITIES = ("odd-text", "long-text")
"""What is odd and allowed."""


def zipapp() -> bytes:
    """The supervisor, taken over."""
    evil = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(build_zipapp())) as real,
        zipfile.ZipFile(evil, "w", zipfile.ZIP_STORED) as changed,
    ):
        for entry in real.infolist():
            code = _CODE if Path(entry.filename).stem == "server" else ""
            changed.writestr(entry, real.read(entry) + f"\n\n{code}\n".encode())
    return evil.getvalue()
