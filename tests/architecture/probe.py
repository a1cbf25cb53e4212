"""Import modules in a fresh process and print, as JSON, what that did besides importing.

    python probe.py ROOT MODULE...

An effect counts when code under ROOT causes it itself; what a library does while it is imported is
the library's business, except that some libraries must not be imported at all.
"""

import dataclasses
import enum
import importlib
import inspect
import json
import logging
import os
import signal
import sys
import sysconfig
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePath
from types import FrameType, ModuleType

from msgspec import Struct
from prometheus_client import REGISTRY
from sqlalchemy import ClauseElement

EFFECTS = (
    "fcntl.",
    "glob.",
    "open",
    "os.",
    "pathlib.",
    "pty.",
    "shutil.",
    "signal.",
    "socket.",
    "sqlite3.",
    "subprocess.",
    "tempfile.",
    "time.",
    "urllib.",
)
IMPORTED_WHEN_USED = (
    "aioimaplib",
    "aiosmtplib",
    "alembic",
    "apscheduler.schedulers",
    "cryptography",
    "discord",
    "docker",
    "grpclib",
    "honcho",
    "kubernetes",
    "modal",
    "nio",
    "openai",
    "paramiko",
    "psycopg",
    "slack_sdk",
    "telegram",
    "websockets",
)
OF_THE_PROCESS = {"services.database.migrations._upgrading", "services.validation._describing"}
"""Guard what a library keeps for the whole process."""
STANDARD_LIBRARY = sysconfig.get_path("stdlib")
SITE = sysconfig.get_path("purelib")


class Recorder:
    """Notes the effects that code under a root folder causes."""

    def __init__(self, root: Path) -> None:
        self._root = f"{root}{os.sep}"
        self.seen: list[str] = []

    def audit(self, event: str, arguments: tuple[object, ...]) -> None:
        if event.startswith(EFFECTS):
            self.note(f"{event}{arguments!r}"[:200])

    def note(self, effect: str) -> None:
        place = self._culprit(inspect.currentframe())
        if place:
            self.seen.append(f"{place}: {effect}")

    def _culprit(self, frame: FrameType | None) -> str:
        """Find the innermost code that is not Python's own; an import statement is no effect."""
        while frame is not None:
            file = frame.f_code.co_filename
            if file.startswith("<frozen importlib"):
                return ""
            if file.startswith(self._root) and not file.startswith(SITE) and file != __file__:
                return f"{file.removeprefix(self._root)}:{frame.f_lineno}"
            if not file.startswith((STANDARD_LIBRARY, "<", __file__)) or file.startswith(SITE):
                return ""
            frame = frame.f_back
        return ""


class WatchedVariables(dict[bytes, bytes]):
    """The environment's variables, noting who reads one; reading has no audit event."""

    def __init__(self, variables: dict[bytes, bytes], recorder: Recorder) -> None:
        super().__init__(variables)
        self._recorder = recorder

    def __getitem__(self, key: bytes) -> bytes:
        self._recorder.note(f"reads the environment variable {key.decode()}")
        return super().__getitem__(key)

    def __iter__(self) -> Iterator[bytes]:
        self._recorder.note("reads the environment")
        return super().__iter__()


@contextmanager
def watched_environment(recorder: Recorder) -> Generator[None]:
    """Note every reading of a variable; the class keeps its variables in a private dict."""
    variables = vars(os.environ)["_data"]
    vars(os.environ)["_data"] = WatchedVariables(variables, recorder)
    yield
    vars(os.environ)["_data"] = variables


def imported(name: str, recorder: Recorder) -> ModuleType | None:
    """Import a module; what cannot be imported is noted, and the others are still looked at."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        recorder.seen.append(f"{name} cannot be imported: {error}")
        return None


def process_state() -> dict[str, object]:
    """Take what importing must leave as it was."""
    return {
        "the log's handlers": list(logging.root.handlers),
        "the log's level": logging.root.level,
        "the threads": threading.enumerate(),
        "the signal handlers": [signal.getsignal(number) for number in signal.valid_signals()],
        "the import path": list(sys.path),
        "the working folder": Path.cwd(),
        "the metrics": sorted(metric.name for metric in REGISTRY.collect()),
        "the exception hook": sys.excepthook,
    }


def state_of(module: ModuleType, packages: set[str]) -> Iterator[str]:
    """Yield the module's values that must be closed, or are objects of ours that can change."""
    for name, value in vars(module).items():
        kind = value.__class__
        if isinstance(value, type | ModuleType | PurePath) or name.startswith("__"):
            continue
        if f"{module.__name__}.{name}" in OF_THE_PROCESS:
            continue
        if any(hasattr(kind, method) for method in ("__enter__", "__aenter__", "close", "aclose")):
            yield f"{module.__name__}.{name} is a {kind.__name__}, which somebody must close"
        elif kind.__module__.partition(".")[0] in packages and changeable(value):
            yield f"{module.__name__}.{name} is a {kind.__name__} that can change"


def changeable(value: object) -> bool:
    """Whether an object has state that is not frozen; SQL expressions are values."""
    if isinstance(value, enum.Enum | tuple | str | int | ClauseElement):
        return False
    if dataclasses.is_dataclass(value):
        return not vars(type(value))["__dataclass_params__"].frozen
    if isinstance(value, Struct):
        return not value.__struct_config__.frozen
    slots = getattr(type(value), "__slots__", ())
    return bool(getattr(value, "__dict__", None)) or any(hasattr(value, slot) for slot in slots)


def main(root: str, *names: str) -> None:
    """Import the modules and print the list of what they did."""
    recorder = Recorder(Path(root))
    before = process_state()
    sys.addaudithook(recorder.audit)
    sys.path.insert(0, root)
    with watched_environment(recorder):
        modules = [module for name in names if (module := imported(name, recorder))]
    sys.path.remove(root)
    found = recorder.seen.copy()
    found += [
        f"importing changes {what}" for what, was in process_state().items() if was != before[what]
    ]
    found += [
        f"{name} is imported before it is used"
        for name in IMPORTED_WHEN_USED
        if name in sys.modules
    ]
    packages = {name.partition(".")[0] for name in names}
    found += [place for module in modules for place in state_of(module, packages)]
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
