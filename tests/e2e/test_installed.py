"""Hermes installed from its wheel, as `pipx install` and `uv tool install` do it."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.e2e.backends import need_backend, sandboxed
from tests.e2e.home import Home
from tests.e2e.model import ModelProcess
from tests.support.wheel import build_wheel, install_wheel


@pytest.mark.slow
def test_the_wheel_is_all_that_a_person_needs(tmp_path: Path, model: ModelProcess) -> None:
    backend = need_backend("bubblewrap", tmp_path)
    home = Home.make(tmp_path, sandboxed(backend), HERMES_BASE_URL=model.url)
    (tmp_path / "wheel").mkdir()
    hermes = install_wheel(build_wheel(tmp_path / "wheel"), tmp_path / "environment")

    def run(*arguments: str) -> str:
        command, environ = [hermes, *arguments], home.environ
        ended = subprocess.run(
            command, env=environ, cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert ended.returncode == 0, ended.stderr + ended.stdout
        return ended.stdout

    assert run("--version").startswith("hermes ")
    checks = {(each["check"], each["verdict"]) for each in json.loads(run("doctor", "--json"))}
    assert {("model", "ok"), ("sandbox", "ok")} <= checks
    asked = json.loads(run("chat", "-q", "who are you", "--json"))
    assert asked["tool_calls"][0]["exit_code"] == 0
    assert asked["tool_calls"][0]["backend"] == backend
