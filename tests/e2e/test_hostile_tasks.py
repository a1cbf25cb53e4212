"""Items whose model attacks its sandbox: each costs its own score, and nothing else."""

import socket
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from tests.e2e.backends import sandboxed
from tests.e2e.deployment import Deployment, one_process, running
from tests.e2e.model import Json, calls, model_process, rule, terminal_call
from tests.support.calculator import ADDS, FIXED, calculator_task, write_calculator

BOMB = """cat > bomb.py <<'END'
import os
while True:
    try:
        os.fork()
    except OSError:
        pass
END
python3 bomb.py"""
CHANGES = {
    "good": write_calculator(FIXED),
    "half": write_calculator(ADDS),
    "none": "true",
    "fork bomb": BOMB,
    "flood": "yes",
    "flood of the check": write_calculator("while True: print('x' * 4096)\n"),
    "network": "for n in 1 2 3; do echo hi > /dev/tcp/127.0.0.1/{port}; done; true",
    "outside": "echo owned > {victim}; rm -rf {victim} /workspace/../* / --no-preserve-root; true",
    "tests": "for f in tests/*; do echo > $f; done; echo 'raise SystemExit(0)' > sitecustomize.py",
    "archive": "cd tests; for f in *; do echo > $f; done; tar -czf ../../uploads/tests.0 . || "
    "{ mkdir ../../uploads; tar -czf ../../uploads/tests.0 .; chmod 555 ../../uploads; }",
    "archive in the way": f"{write_calculator(FIXED)}\nmkdir ../uploads; ln -s calc.py "
    "../uploads/tests.0",
    "afterwards": write_calculator(FIXED),
}
SCORES = {"good": 1, "half": 0.5, "archive in the way": 1, "afterwards": 1}


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """A server of this machine that nobody in a sandbox may reach."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        yield server


def rules(port: int, victim: Path) -> list[Json]:
    commands = {
        name: change.replace("{port}", str(port)).replace("{victim}", str(victim))
        for name, change in CHANGES.items()
    }
    return [
        rule(
            f"Task: {name}\\.",
            calls(terminal_call(command, workdir="repository", timeout=5)),
            {"text": "I did it."},
        )
        for name, command in commands.items()
    ]


@pytest.mark.timeout(180)
def test_a_hostile_item_costs_its_own_score_only(
    backend: str, listener: socket.socket, tmp_path: Path
) -> None:
    victim = tmp_path / "victim.txt"
    victim.write_text("unharmed")
    task = calculator_task(tmp_path / "origin", noise_bytes=5_000_000)
    given = rules(listener.getsockname()[1], victim)
    with model_process(tmp_path, given) as model:
        made = one_process(tmp_path / "up", model.url, sandboxed(backend))
        environment = made.client.path / "environments" / "hermes_swe_env.jsonl"
        environment.parent.mkdir()
        tasks = [
            replace(
                task,
                id=name.replace(" ", "-"),
                prompt=f"Task: {name}.",
                # Tests of others are slow beside a fork bomb.
                test_timeout_s=3 if name == "flood of the check" else 30,
            )
            for name in CHANGES
        ]
        environment.write_bytes(b"".join(msgspec.json.encode(each) + b"\n" for each in tasks))
        with running(made) as up:
            check(up)
    assert victim.read_text() == "unharmed"
    with pytest.raises(BlockingIOError):
        listener.accept()


def check(up: Deployment) -> None:
    command = ("rl", "evaluate", "hermes_swe_env", "--workers", "4")
    found = up.client.run(*command, "--run", "first", "--json", timeout_s=120).json
    assert found["complete"], found
    scores = {each["id"]: each["scores"] for each in found["results"]}
    assert scores == {name.replace(" ", "-"): [SCORES.get(name, 0)] for name in CHANGES}
    # The sandboxes are gone, with all that ran in them.
    assert up.client.run("sandboxes", "list", "--json").json == []
