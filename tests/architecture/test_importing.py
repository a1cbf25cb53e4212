"""Importing does nothing: no I/O, no environment, no registration, no client, no heavy library."""

import json
import subprocess
import sys
from pathlib import Path

from tests.architecture.source import ROOT, product
from tests.architecture.test_imports import SLOW

BEFORE_USE = "is imported before it is used"
PROBE = Path(__file__).with_name("probe.py")


def effects(root: Path, *modules: str) -> list[str]:
    """Return what importing the modules does in a process of its own."""
    command = [sys.executable, "-B", "-W", "error", PROBE, root, *modules]
    run = subprocess.run(command, capture_output=True, text=True, check=False, cwd=root)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def test_reading_the_settings_loads_no_service() -> None:
    names = (
        "services",
        "agent_service",
        "executor_service",
        "gateway_service",
        "scheduler_service",
    )
    loaded = _loaded_with(*(f"{name}.config" for name in names))
    # Every command reads them, and may have nothing else to do.
    assert not loaded & {"sqlalchemy", "alembic", "httpx", "httpx2", "openai", "docker", "paramiko"}


def test_serving_loads_no_prompt() -> None:
    assert not _loaded_with("services.cli.up") & {"prompt_toolkit", "rich", "markdown_it"}


def _loaded_with(*modules: str) -> set[str]:
    command = [sys.executable, "-c", f"import sys, {', '.join(modules)}; print(*sys.modules)"]
    run = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    return set(run.stdout.split())


def test_importing_the_product_does_nothing() -> None:
    modules = [module.name for module in product() if "/migrations/" not in module.path]
    heavy = [name for name in modules if name in SLOW]
    found = effects(ROOT, *(name for name in modules if name not in heavy))
    found += [line for line in effects(ROOT, *heavy) if BEFORE_USE not in line]
    assert not found, "\n".join(found)


SAMPLES = {
    "opens": ("open(__file__).close()", "opens.py:1: open("),
    "writes": ("import pathlib; pathlib.Path('made').write_text('')", "writes.py:1: open("),
    "lists": ("import os; os.listdir()", "lists.py:1: os.listdir("),
    "connects": ("import socket; socket.socket().close()", "connects.py:1: socket."),
    "runs": ("import subprocess; subprocess.run(['true'])", "runs.py:1: subprocess.Popen("),
    "stores": (
        "import sqlite3; sqlite3.connect(':memory:').close()",
        "stores.py:1: sqlite3.connect(",
    ),
    "gets": ("import os; os.environ.get('HOME')", "gets.py:1: reads the environment variable HOME"),
    "asks": ("import os; 'HOME' in os.environ", "asks.py:1: reads the environment variable HOME"),
    "homes": (
        "import pathlib; pathlib.Path.home()",
        "homes.py:1: reads the environment variable HOME",
    ),
    "copies": ("import os; dict(os.environ)", "copies.py:1: reads the environment"),
    "sets": ("import os; os.environ['A'] = 'b'", "sets.py:1: os.putenv("),
    "spawns": (
        "import threading as t; t.Thread(target=t.Event().wait, daemon=True).start()",
        "changes the threads",
    ),
    "logs": ("import logging; logging.basicConfig()", "changes the log's handlers"),
    "levels": ("import logging; logging.root.setLevel(1)", "changes the log's level"),
    "traps": ("import signal; signal.signal(2, signal.SIG_IGN)", "changes the signal handlers"),
    "counts": ("import prometheus_client as p; p.Counter('a', 'b')", "changes the metrics"),
    "paths": ("import sys; sys.path.append('x')", "changes the import path"),
    "heavy": ("import docker", "docker is imported before it is used"),
    "lost": ("import nowhere", "lost cannot be imported: No module named 'nowhere'"),
    "lock": (
        "import threading; ONE = threading.Lock()",
        "lock.ONE is a lock, which somebody must close",
    ),
    "client": (
        "import httpx2; ONE = httpx2.Client()",
        "client.ONE is a Client, which somebody must close",
    ),
    "state": (
        "class A:\n def __init__(self): self.x = 1\nONE = A()",
        "state.ONE is a A that can change",
    ),
}


VALUES = """
import dataclasses, enum, logging, pathlib, re, grpc, pydantic, sqlalchemy
log = logging.getLogger(__name__)
@dataclasses.dataclass(frozen=True, slots=True)
class A:
    x: int = 1
ONE, WORD, PLACE = A(), re.compile("x"), pathlib.Path("/proc")
TABLE = sqlalchemy.Table("a", sqlalchemy.MetaData())
class Now(sqlalchemy.sql.functions.FunctionElement[int]): pass
EXPRESSION = Now()
"""


def test_each_effect_is_seen_and_values_are_none(tmp_path: Path) -> None:
    for name, (text, _) in SAMPLES.items():
        (tmp_path / f"{name}.py").write_text(text)
    (tmp_path / "values.py").write_text(VALUES)
    found = effects(tmp_path, *SAMPLES, "values")
    for name, (_, effect) in SAMPLES.items():
        assert any(effect in line for line in found), (name, found)
    assert not [line for line in found if "values" in line]
