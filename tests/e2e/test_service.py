"""`hermes service` with a real manager of systemd: installed, started, killed, stopped, removed."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.deployment import model_at
from tests.e2e.home import Home
from tests.e2e.model import Json, ModelProcess
from tests.e2e.processes import wait_until
from tests.support.systemd import AS_USER, user_manager

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]  # Hermes starts three times


@pytest.fixture
def home(tmp_path: Path, model: ModelProcess) -> Iterator[Home]:
    """The usual home of a user who has a manager of systemd."""
    with user_manager(tmp_path) as environ:
        config = {"terminal": {"backend": "local"}, "security": {"allow_local_backend": True}}
        home = Home(tmp_path / ".hermes", dict(environ), AS_USER)
        home.path.mkdir()
        home.configure(config)
        settings = {**model_at(model.url), "HERMES_METRICS_PORT": "0"}
        lines = "".join(f"{name}={value}\n" for name, value in settings.items())
        (home.path / ".env").write_text(lines)
        yield home


def test_systemd_keeps_hermes_running(home: Home) -> None:
    installed = home.run("service", "install", "--now")
    assert installed.status == 0, (installed.err, home.logs())
    assert installed.out.splitlines()[-1] == "hermes is running; open a chat with: hermes chat"
    unit = home.path.parent / ".config/systemd/user/hermes.service"
    assert unit.exists()
    first = home.run("service", "status", "--json").json
    assert (first["state"], first["enabled"], first["restarts"]) == ("active", True, 0)
    _talk(home)

    os.kill(first["pid"], signal.SIGKILL)
    wait_until(lambda: _is_another(_status(home), first), "another start")

    assert home.run("service", "stop").out == "stopped hermes\n"
    stopped = home.run("service", "status")
    assert (stopped.status, "hermes is inactive" in stopped.out) == (1, True)
    started = home.run("service", "start")
    assert (started.status, started.out) == (
        0,
        "hermes is running; open a chat with: hermes chat\n",
    )
    assert home.run("service", "start").out == "hermes is already running\n"
    _talk(home)

    removed = home.run("service", "uninstall")
    assert removed.status == 0, removed.err
    assert not unit.exists()
    assert home.run("service", "status").status == 1
    assert (home.path / "config.yaml").exists()


def _is_another(found: Json, first: Json) -> bool:
    """Whether it is a process that systemd has started after a first one."""
    return found["restarts"] == 1 and found["pid"] not in (None, first["pid"])


def _status(home: Home) -> Json:
    return home.run("service", "status", "--json").json


def _talk(home: Home) -> None:
    said = home.run("chat", "-q", "hello")
    assert (said.status, bool(said.out.strip())) == (0, True), said.err
