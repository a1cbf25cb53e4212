"""Runs of tests that come to their end by themselves, and tell what is still to pass.

`python -m pytest -p tests.ci --passed FILE` notes in the file what has passed, and leaves out what
the file has. A test that its time limit could not end, as in a call into C, ends its process; so
does a run for which nothing is left to happen, as pytest-xdist leaves it after some crashes.

What may last longest begins first: at the end of the run the processes wait for each other.
"""

import faulthandler
import os
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

GRACE_S = 60.0
"""How much longer than it may a test lasts before its process ends."""
IDLE_S = 120.0
"""How long no test runs before the run ends; collecting is not counted."""
LONGEST_S = 4000.0
"""How long several processes run their tests without one of them ending."""


BY_BACKEND = "tests/contract/test_backends.py::"
"""What is too much for one process; its fixtures are made once for each backend."""
BACKENDS = ("bubblewrap", "docker", "gvisor", "kubernetes", "local", "modal", "singularity", "ssh")


def unit_of(nodeid: str) -> str:
    """What one process runs, as its tests share fixtures: a file, or a backend's part of one."""
    file, _, test = nodeid.partition("::")
    if not nodeid.startswith(BY_BACKEND):
        return file
    _, _, parameters = test.partition("[")
    named = [name for name in BACKENDS if parameters.startswith((f"{name}-", f"{name}]"))]
    return f"{file}[{''.join(named)}]"


def limit_of(item: pytest.Item) -> float:
    """How long a test may last, as far as it needs a limit of its own."""
    marker = item.get_closest_marker("timeout")
    return float(marker.args[0]) if marker and marker.args else 0.0


class Units(LoadScopeScheduling):
    """Gives each process whole units, in the order in which they were collected."""

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Units:
    """Has units given out."""
    config.option.loadscopereorder = False  # which would begin with those of the most tests
    return Units(config, log)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts the units with the highest limits first, and among equals those of the most tests."""
    sizes = Counter(unit_of(item.nodeid) for item in items)
    limits = dict.fromkeys(sizes, 0.0)
    for item in items:
        unit = unit_of(item.nodeid)
        limits[unit] = max(limits[unit], limit_of(item))

    def rank(item: pytest.Item) -> tuple[float, int, str]:
        unit = unit_of(item.nodeid)
        return -limits[unit], -sizes[unit], unit

    items.sort(key=rank)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the file."""
    parser.addoption("--passed", type=Path, required=True)


def pytest_configure(config: pytest.Config) -> None:
    """Begins to watch, in each process of the run."""
    assert sys.__stderr__ is not None
    log = os.dup(sys.__stderr__.fileno())  # before it is captured
    config.add_cleanup(faulthandler.cancel_dump_traceback_later)
    is_led, leads = hasattr(config, "workerinput"), bool(config.getoption("numprocesses", 0))
    config.pluginmanager.register(_Leading(log) if leads and not is_led else _Running(log))
    if not is_led:
        passed: Path = config.option.passed
        config.pluginmanager.register(_Passed(passed))


class _Running:
    """Ends the process of a test that nothing else ends."""

    def __init__(self, log: int) -> None:
        self._log = log
        self._limit_s = 0.0

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        limit_s = limit_of(item) or float(item.config.getini("timeout") or 0)
        self._limit_s = (limit_s or LONGEST_S) + GRACE_S
        self.pytest_exception_interact()

    @pytest.hookimpl(trylast=True)
    def pytest_exception_interact(self) -> None:
        if not self._limit_s:
            return  # what could not be collected
        # pytest has just taken the watch away.
        faulthandler.dump_traceback_later(self._limit_s, exit=True, file=self._log)

    def pytest_runtest_logfinish(self) -> None:
        faulthandler.cancel_dump_traceback_later()


class _Leading:
    """Ends a run whose processes do nothing any more."""

    def __init__(self, log: int) -> None:
        self._log = log
        self._running: set[str] = set()

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._running.add(nodeid)
        self._watch()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when not in ("setup", "call"):  # else it has ended, or its process
            self._running.discard(report.nodeid)
        self._watch()

    def _watch(self) -> None:
        limit_s = LONGEST_S if self._running else IDLE_S
        faulthandler.dump_traceback_later(limit_s, exit=True, file=self._log)


class _Passed:
    """What has passed, in this run and in those before it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._failed: set[str] = set()

    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        passed = set(self._path.read_text().splitlines()) if self._path.exists() else set[str]()
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid in passed])
        items[:] = [item for item in items if item.nodeid not in passed]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._failed.add(report.nodeid)
        elif report.when == "teardown" and report.nodeid not in self._failed:
            with self._path.open("a") as file:
                file.write(f"{report.nodeid}\n")
