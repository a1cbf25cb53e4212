"""The main job, asked once from the command line, on every kind of deployment and sandbox."""

import json
import socket
import time
from datetime import UTC
from signal import SIGINT

import pytest

from hermes.agent.v1.turn_event_pb2 import TurnEvent
from tests.e2e.client import ask
from tests.e2e.deployment import Deployment
from tests.e2e.model import FLOOD_BYTES, FLOOD_GROWTH_MIB, MARKER, NOTE, STORY
from tests.e2e.processes import wait_until, with_marker
from tests.support.memory import Memory


def test_a_command_runs_in_the_sandbox_and_not_on_the_host(
    deployment: Deployment, backend: str
) -> None:
    answered = deployment.client.ask("who are you")
    assert set(answered) == {"session_id", "turn_id", "answer", "tool_calls", "usage"}
    user, host, folder = answered["answer"].splitlines()
    assert user.startswith("uid=")
    assert "uid=0" not in user
    assert host != socket.gethostname()
    assert folder == "/workspace"
    (call,) = answered["tool_calls"]
    assert call.pop("duration_ms") >= 0
    assert call.pop("sandbox_id").startswith("sbx_")
    assert call == {
        "name": "terminal",
        "arguments": {"command": "id; hostname; pwd"},
        "is_error": False,
        "exit_code": 0,
        "backend": backend,
        "isolation": "namespace",
    }
    assert answered["usage"]["prompt_tokens"] > 0
    assert answered["usage"]["completion_tokens"] > 0


def test_a_file_is_written_read_and_there_in_a_later_turn(deployment: Deployment) -> None:
    wrote = deployment.client.ask("write the note")
    assert [call["name"] for call in wrote["tool_calls"]] == ["write_file", "read_file"]
    assert not any(call["is_error"] for call in wrote["tool_calls"])
    for line in NOTE.splitlines():
        assert line in wrote["answer"]
    later = deployment.client.ask("show the note", "--resume", wrote["session_id"])
    assert later["session_id"] == wrote["session_id"]
    assert later["turn_id"] != wrote["turn_id"]
    assert later["answer"] == NOTE.strip()
    elsewhere = deployment.client.ask("show the note")
    assert "No such file" in elsewhere["answer"], "another session has a workspace of its own"


@pytest.mark.timeout(120)
def test_a_flood_of_output_keeps_its_head_and_tail_in_bounded_memory(
    deployment: Deployment,
) -> None:
    watch = Memory(*deployment.pids)
    flooded = deployment.client.ask("flood", timeout_s=100)
    assert watch.grown_mib() < FLOOD_GROWTH_MIB
    (call,) = flooded["tool_calls"]
    assert (call["exit_code"], call["is_error"]) == (0, False)
    answer = flooded["answer"]
    assert answer.startswith("the first line\ny\ny\n")
    assert answer.endswith("\ny\ny\nthe last line")
    assert len(answer) < FLOOD_BYTES / 1000


def test_an_interrupt_ends_the_question_and_what_it_runs(deployment: Deployment) -> None:
    with deployment.client.spawn("chat", "-q", "sleep long", "--json") as asking:
        wait_until(lambda: bool(with_marker(MARKER)), "the command runs")
        began = time.monotonic()
        asking.send_signal(SIGINT)
        out, err = asking.communicate(timeout=20)
        took_s = time.monotonic() - began
    assert with_marker(MARKER) == [], "what was interrupted runs on"
    assert asking.returncode == 130
    assert err.splitlines() == ["hermes: interrupted"], err
    assert '"is_error": true' in out
    assert took_s < 5


def test_a_program_calls_tools(deployment: Deployment) -> None:
    answered = deployment.client.ask("run a program")
    assert answered["answer"] == "3 True"
    assert [call["name"] for call in answered["tool_calls"]] == ["execute_code"]


def test_commands_of_one_message_run_side_by_side(deployment: Deployment) -> None:
    events = ask(deployment.client, "four naps")
    started = [_moment(event) for event in events if event.HasField("tool_started")]
    finished = [_moment(event) for event in events if event.HasField("tool_finished")]
    assert len(started) == len(finished) == 4
    assert max(started) < min(finished), "all began before the first one ended"
    assert events[-1].turn_finished.completed.answer == "All four are over."


def test_an_answer_streams(deployment: Deployment) -> None:
    with deployment.client.spawn("chat", "-q", "a story", bufsize=0) as telling:
        assert telling.stdout is not None
        first = telling.stdout.read(5)
        began = time.monotonic()
        rest = telling.stdout.read()
        took_s = time.monotonic() - began
    assert telling.returncode == 0
    assert (first + rest).strip() == STORY
    assert took_s > 0.3, "the first words came long before the last"


def test_a_failing_command_is_the_models_to_judge(deployment: Deployment, backend: str) -> None:
    failed = deployment.client.ask("go wrong")
    (call,) = failed["tool_calls"]
    assert (call["exit_code"], call["is_error"], call["backend"]) == (3, True, backend)
    assert failed["answer"] == "to stderr\n[exit code 3]"


def _moment(event: TurnEvent) -> float:
    return event.time.ToDatetime(UTC).timestamp()


def test_the_logs_of_all_services_name_the_turn(deployment: Deployment) -> None:
    answered = deployment.client.ask("who are you")

    def telling() -> set[str]:
        lines = [json.loads(line) for line in deployment.logs().splitlines() if line[:1] == "{"]
        ours = [line for line in lines if line.get("turn_id") == answered["turn_id"]]
        assert {line["session_id"] for line in ours} <= {answered["session_id"]}
        return {line["service"] for line in ours}

    wait_until(lambda: telling() >= {"gateway", "agent", "executor"}, "all have told of the turn")
