"""`hermes rl` as a person uses it: look, evaluate, write groups, go on after a kill."""

import json
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from tests.e2e.home import Home
from tests.e2e.terminal import terminal
from tests.support.calculator import calculator_task

TASKS: Sequence[dict[str, Any]] = (
    {"id": "made", "prompt": "touch a file", "check": "test -e made", "tags": ["easy"]},
    {"id": "half", "prompt": "hello", "check": "echo 0.5", "tags": ["easy", "text"]},
    {"id": "none", "prompt": "hello there", "check": "exit 3"},
    {"id": "lost", "prompt": "hello", "setup": "exit 1", "check": "true"},
)


@pytest.fixture(autouse=True)
def _tasks(home: Home) -> None:
    folder = home.path / "environments"
    folder.mkdir()
    (folder / "mine.jsonl").write_text("".join(f"{json.dumps(task)}\n" for task in TASKS))
    (folder / "bad.jsonl").write_text('{"prompt": "no check"}\n')


def test_environments_are_listed(home: Home) -> None:
    found = {each["name"]: each for each in home.run("rl", "list", "--json").json}
    assert list(found) == ["bad", "hermes_swe_env", "mine", "terminal_test_env"]
    assert (found["mine"]["task_count"], found["bad"]["task_count"]) == (4, None)
    assert found["terminal_test_env"]["task_count"] >= 12
    assert "bad.jsonl:1: a task needs a check" in found["bad"]["problem"]
    assert "no tasks yet" in home.run("rl", "list").out


def test_each_task_is_tried_and_scored(home: Home) -> None:
    ran = home.run("rl", "evaluate", "mine", "--group-size", "2", "--json")
    found = ran.json
    assert (found["complete"], found["tasks"], found["attempts"]) == (True, 4, 8)
    assert (found["failed"], found["mean_score"], found["pass_1"]) == (2, 0.375, 0.25)
    assert found["mean_reward"] == found["mean_score"]
    assert found["tags"]["easy"]["mean_score"] == 0.75
    assert found["tags"]["text"]["pass_k"] == 0
    assert found["results"][:2] == [
        {"id": "made", "scores": [1, 1]},
        {"id": "half", "scores": [0.5, 0.5]},
    ]
    again = home.run("rl", "evaluate", "mine", "--group-size", "2")
    assert "was run before: 8 of 8 items are done" in again.out
    assert again.out.splitlines()[1].split()[-2:] == ["pass@1", "pass@2"]
    other = home.run("rl", "evaluate", "mine", "--group-size", "1", "--json").json
    assert (other["attempts"], other["run"] != found["run"]) == (4, True)


def test_groups_are_written_once_though_the_command_is_killed(home: Home, tmp_path: Path) -> None:
    out = tmp_path / "groups.jsonl"
    given = ("rl", "process", "mine", "--group-size", "2", "--groups", "9", "--seed", "5")
    command = (*given, "--workers", "1", "--out", out)
    with home.spawn(*command) as process:
        while not sum(each["done_count"] for each in home.run("batch", "list", "--json").json):
            assert process.poll() is None
        process.kill()
    assert not out.exists()
    ran = home.run(*command, "--json").json
    # The groups of a task whose setup fails have no conversation.
    assert (ran["complete"], ran["groups"]) == (True, 6)
    groups = [json.loads(line) for line in out.read_text().splitlines()]
    expected = {"made": [1, 1], "half": [0.5, 0.5], "none": [0, 0]}
    assert all(each["scores"] == expected[each["task"]] for each in groups)
    # Each task comes before one comes again.
    for first in (0, 3):
        assert {each["task"] for each in groups[first : first + 3]} == {*expected}
    made = next(each for each in groups if each["task"] == "made")
    for messages in made["messages"]:
        roles = [message["role"] for message in messages]
        assert roles == ["system", "user", "assistant", "tool", "assistant"]
        assert messages[1]["content"].endswith("touch a file")
    assert len(made["messages"]) == 2
    assert "terminal" in {tool["function"]["name"] for tool in made["tools"]}
    (batch,) = home.run("batch", "list", "--json").json
    assert (batch["state"], batch["item_count"], batch["done_count"]) == ("completed", 18, 18)


def test_a_terminal_shows_how_many_files_are_uploaded(home: Home, tmp_path: Path) -> None:
    task = calculator_task(tmp_path / "calc")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/calc"
        tasks = task, replace(task, id="t2", repository=url)
        written = b"\n".join(map(msgspec.json.encode, tasks))
        (home.path / "environments" / "hermes_swe_env.jsonl").write_bytes(written)
        with terminal(home, "rl", "evaluate", "hermes_swe_env") as shown:
            assert shown.wait_for("2 files uploaded")


def test_what_cannot_run_is_said(home: Home) -> None:
    missing = home.run("rl", "evaluate", "minne")
    assert missing.status == 1
    assert "no environment minne; there are bad, hermes_swe_env, mine" in missing.err
    bad = home.run("rl", "evaluate", "bad")
    assert bad.status == 2
    assert "bad.jsonl:1: a task needs a check" in bad.err
    assert home.run("batch", "list", "--json").json == []
