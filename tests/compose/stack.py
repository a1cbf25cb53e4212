"""The compose stack of docker/compose.yaml, really started, with a scripted model."""

import functools
import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import docker

from services.ids import new_id
from tests.support.docker_engine import rootless_engine
from tests.support.images import REPOSITORY, make_images
from tests.support.markdown import page

SERVICES = ("agent", "executor", "gateway", "scheduler")
HERE = Path(__file__).parent
UP_WITHIN_S = 240
CHAT_WITHIN_S = 150
ENV = """\
HERMES_BASE_URL=http://model:8080/v1
HERMES_MODEL=scripted
HERMES_API_KEY=test-key
HERMES_SKILLS_BUNDLED=false
"""
"""The .env of the home that the stack is made of."""


@functools.cache
def make_parts() -> dict[str, str]:
    """Make what users have from a registry from Debian's packages; the variables that name it."""
    base = make_images().splitlines()[-1].rpartition(" of ")[2]
    images = dict[str, str]()
    apt = subprocess.run(
        ["apt-config", "dump"], check=True, capture_output=True, text=True
    ).stdout.splitlines()
    with tempfile.NamedTemporaryFile("w", suffix=".conf") as options:
        options.write("".join(f"{line}\n" for line in apt if line.startswith("Acquire::http")))
        options.flush()
        for part in ("postgres", "prometheus"):
            tag = f"hermes-test/{part}"
            argv = ["docker", "buildx", "build", "--load", f"--target={part}", f"--tag={tag}"]
            argv += [f"--build-arg=BASE={base}", f"--secret=id=apt,src={options.name}", str(HERE)]
            made = subprocess.run(argv, check=False, capture_output=True, text=True)
            assert made.returncode == 0, made.stderr[-4000:]
            images[f"HERMES_{part.upper()}_IMAGE"] = tag
    return images


class Stack:
    """A running stack, and what a person does with it."""

    def __init__(self, settings: Path, variables: dict[str, str]) -> None:
        self.project = f"hermes-test-{new_id('x')[-8:].lower()}"
        # Variables of the `make` that runs the tests are not for the one that they run.
        inherited = {name: value for name, value in os.environ.items() if "MAKE" not in name}
        # Stacks run side by side, so each has a port of the engine's choice.
        self._environ = {**inherited, "API_SERVER_PORT": "0", **variables}
        self._argv = ["docker", "compose", "--project-name", self.project]
        self._argv += ["--env-file", str(settings), "--file", f"{REPOSITORY}/docker/compose.yaml"]
        self._argv += ["--file", f"{HERE}/override.yaml"]

    def compose(self, *argv: str, timeout_s: float = UP_WITHIN_S) -> str:
        """What `docker compose` says to a command that must succeed."""
        done = self.start(*argv)
        out, err = done.communicate(timeout=timeout_s)
        assert done.returncode == 0, f"{argv}: {out}{err}{self.logs()}"
        return out

    def start(self, *argv: str) -> "subprocess.Popen[str]":
        """Begin a command of `docker compose`."""
        return subprocess.Popen(
            [*self._argv, *argv],
            env=self._environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def spawn(
        self, *argv: str, in_terminal: bool = False, **options: Any
    ) -> "subprocess.Popen[str]":
        """Begin a command of `docker compose` in a terminal; see tests.e2e.terminal."""
        session = ("setsid", "--ctty") if in_terminal else ()
        return subprocess.Popen([*session, *self._argv, *argv], env=self._environ, **options)

    def hermes(self, *argv: str) -> str:
        """What the operator's `hermes` says."""
        return self.compose("run", "--rm", "-T", "operator", *argv, timeout_s=CHAT_WITHIN_S)

    def container(self, service: str) -> Any:
        """What the engine says of a service's container."""
        found = self.compose("ps", "--all", "--quiet", service).split()
        with closing(docker.from_env(timeout=60)) as client:
            return client.containers.get(found[0]).attrs

    def crash(self, service: str) -> None:
        """End a service's first process as the kernel does when memory is short."""
        before = self.container(service)
        os.kill(before["State"]["Pid"], signal.SIGKILL)
        deadline = time.monotonic() + UP_WITHIN_S
        while (now := self.container(service))["RestartCount"] == before["RestartCount"] or not now[
            "State"
        ]["Running"]:
            assert time.monotonic() < deadline, f"{service} is not started again"
            time.sleep(0.2)

    def type_printed(self, command: str, folder: Path) -> None:
        """Run the block of docs/operators/compose.md that has a command."""
        blocks = page(REPOSITORY / "docs/operators/compose.md").blocks("sh")
        (text,) = (block.text for block in blocks if command in block.text)
        alias = f'stack() {{ {shlex.join(self._argv)} "$@"; }}'
        subprocess.run(
            ["bash", "-euo", "pipefail", "-c", f"{alias}\n{text}"],
            cwd=folder,
            env=self._environ,
            check=True,
            timeout=UP_WITHIN_S,
        )

    def make_up(self, home: Path, engine: str) -> None:
        """Start it as a person does, and the model beside it."""
        done = subprocess.run(
            ["make", f"BIN={Path(sys.executable).parent}", "--assume-old=install", "compose-up"],
            cwd=REPOSITORY,
            env={
                **self._environ,
                "COMPOSE_PROJECT_NAME": self.project,
                "HERMES_HOME": str(home),
                "ENGINE": engine,
            },
            check=False,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, f"{done.stdout}{done.stderr}"[-6000:]
        self.compose("up", "--detach", "model")

    def logs(self) -> str:
        """The end of what all said."""
        argv = [*self._argv, "logs", "--no-color", "--tail=15"]
        said = subprocess.run(
            argv, check=False, capture_output=True, text=True, env=self._environ, timeout=60
        )
        return said.stdout[-8000:]


@contextmanager
def stack(rules: Sequence[Any]) -> Generator[Stack]:
    """A stack whose model follows the rules, for the time of the block."""
    parts = make_parts()
    with rootless_engine() as engine:
        home = engine.folder / "hermes"
        home.mkdir()
        home.chmod(0o711)  # the engine's user has to come through, whose folder is in it
        (home / ".env").write_text(ENV)
        script = home / "script.json"
        script.write_text(json.dumps({"rules": list(rules)}))
        script.chmod(0o644)
        variables = {**parts, "HERMES_TEST_SCRIPT": str(script), "HERMES_TESTS": str(HERE.parent)}
        running = Stack(home / "compose/settings", variables)
        try:
            running.make_up(home, engine.host.removeprefix("unix://"))
            yield running
        finally:
            down = running.start("--profile=operator", "down", "--volumes", "--timeout=5")
            down.communicate(timeout=UP_WITHIN_S)
