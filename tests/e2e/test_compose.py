"""The compose stack: a conversation with a command, while one service after another is killed."""

import json
import shlex
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.compose.stack import CHAT_WITHIN_S, SERVICES, Stack, stack
from tests.e2e.model import TELL, Json, calls, rule, terminal_call, tool_call
from tests.e2e.processes import wait_until, with_marker
from tests.e2e.terminal import CTRL_D, terminal
from tests.e2e.test_terminal import PROMPT
from tests.support.markdown import pages
from tests.support.printed import printed

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]

NAP_S = "7.39125"
"""Seconds that no other sleep on this machine takes: by them the command is found."""
SKILL = """\
---
name: watering
description: How the plants on the sill are watered.
---
Each takes a cup on Mondays.
"""
WATERING: Json = {"action": "create", "name": "watering", "content": SKILL}
PRINTED = "docker compose --env-file ~/.hermes/compose/settings --file docker/compose.yaml "
OF_A_BACKUP = ("pg_dump", "pg_restore", "psql", "stack stop", "stack up --detach --wait")
"""What its own test types."""
CHANGE: Json = {"old_string": "two", "new_string": "three"}
RULES = (
    rule(
        "a nap then",
        calls(terminal_call(f"echo >>naps; sleep {NAP_S}; echo and over; wc -l <naps")),
        TELL,
    ),
    rule(
        "remember the lamp",
        calls(tool_call("memory", action="add", target="memory", content="The lamp is green.")),
        {"text": "I do."},
    ),
    rule(
        "learn to water",
        calls({"name": "skill_manage", "arguments": WATERING}),
        {"text": "I have."},
    ),
    rule(
        "keep a note",
        calls(tool_call("write_file", path="src/note.txt", content="one\ntwo\n")),
        calls(tool_call("patch", mode="replace", path="src/note.txt", **CHANGE)),
        calls(tool_call("read_file", path="src/note.txt")),
        TELL,
    ),
    rule("", {"text": "You said: {user}"}),
)


@pytest.fixture(scope="module")
def running() -> Iterator[Stack]:
    """The stack, started once for all tests here."""
    with stack(RULES) as started:
        yield started


def test_files_are_written_over_the_network_alone(running: Stack) -> None:
    """The agent has no folder in common with its executor."""
    assert "three" in running.hermes("chat", "-q", "keep a note")


def test_a_conversation_outlives_each_service(running: Stack) -> None:
    assert "You said: hello" in running.hermes("chat", "-q", "hello")
    for service in SERVICES:
        talk = running.start("run", "--rm", "-T", "operator", "chat", "-q", f"a nap then {service}")
        wait_until(lambda: bool(with_marker(NAP_S)), "the command", CHAT_WITHIN_S)
        running.crash(service)
        out, err = talk.communicate(timeout=CHAT_WITHIN_S)
        assert talk.returncode == 0, err
        # The command has run once: its file has one line in the session's own workspace.
        assert "and over" in out, (service, out, err)
        assert out.split("and over")[1].split()[0].strip('",\\n') == "1", (service, out)
    sessions = json.loads(running.hermes("sessions", "list", "--json"))
    assert len(sessions) == 2 + len(SERVICES), sessions


def test_who_reaches_what(running: Stack) -> None:
    for service in SERVICES:
        made = running.container(service)
        mounts = " ".join(mount["Source"] for mount in made["Mounts"])
        assert ("engine.sock" in mounts) == (service == "executor"), mounts
        assert "/var/run/docker.sock" not in mounts
        assert ("database-url" in mounts) == (service != "executor"), mounts
        assert made["HostConfig"]["ReadonlyRootfs"]
        assert made["Config"]["User"].partition(":")[0] not in ("", "0")
        environment = " ".join(made["Config"]["Env"])
        assert "test-key" not in environment
        networks = {name.partition("_")[2] for name in made["NetworkSettings"]["Networks"]}
        assert ("outside" in networks) == (service in ("agent", "gateway")), networks
        assert ("execution" in networks) == (service in ("agent", "executor")), networks
        assert ("services" in networks) == (service != "executor"), networks


@pytest.fixture
def no_way_to_metadata() -> Iterator[None]:
    """The rule of docs/operators/compose.md against a cloud's metadata service."""
    (line,) = (line.plain for line in printed(pages()) if line.text.startswith("sudo iptables "))
    insert = line.removeprefix("sudo ").split()
    subprocess.run(insert, check=True)
    yield
    subprocess.run([word.replace("--insert", "--delete") for word in insert], check=True)


def looked_at(running: Stack, service: str) -> tuple[int, list[Json]]:
    """The exit status of `hermes doctor --cluster` in a container, and what it says."""
    asking = running.start("exec", "-T", service, "hermes", "doctor", "--cluster", "--json")
    out, err = asking.communicate(timeout=CHAT_WITHIN_S)
    assert out, err
    return asking.returncode, json.loads(out)


@pytest.mark.usefixtures("no_way_to_metadata")
def test_each_service_sees_from_inside_that_all_is_well(running: Stack) -> None:
    own = {"python", "config", "certificate", "network"}
    seen = {
        "agent": {*own, "services", "sandbox", "trial"},
        "executor": own,
        "gateway": {*own, "services"},
        "scheduler": {*own, "services"},
    }
    for service, checks in seen.items():
        status, found = looked_at(running, service)
        messages = {each["message"] for each in found}
        assert {each["check"] for each in found} == checks
        assert any(each.startswith(f"of the {service}, until ") for each in messages), messages
        assert [each["message"] for each in found if each["verdict"] != "ok"] == []
        assert status == 0


def test_a_backup_is_the_same_in_a_new_stack(running: Stack, tmp_path: Path) -> None:
    running.hermes("chat", "-q", "remember the lamp")
    running.hermes("chat", "-q", "learn to water")
    running.hermes("jobs", "add", "every monday 8am", "water the plants", "--name", "plants")
    kept = state_of(running)
    assert "The lamp is green." in kept["memory"]
    assert "Each takes a cup on Mondays." in kept["skill watering"]
    assert "learn to water" in kept["messages"]
    assert "plants" in kept["jobs"]
    running.type_printed("pg_dump", tmp_path)
    with stack(RULES) as other:
        assert other.hermes("memory", "show", "--json") != kept["memory"]
        other.type_printed("pg_restore", tmp_path)
        assert state_of(other) == kept


def state_of(running: Stack) -> dict[str, str]:
    """What a person would miss."""
    sessions = running.hermes("sessions", "list", "--limit", "1000", "--json")
    skills = running.hermes("skills", "list", "--json")
    newest, names = json.loads(sessions)[0], [skill["name"] for skill in json.loads(skills)]
    return {
        "sessions": sessions,
        "messages": running.hermes("sessions", "show", newest["session_id"], "--json"),
        "said": running.hermes("sessions", "search", "said", "--json"),
        "memory": running.hermes("memory", "show", "--json"),
        "changes of memory": running.hermes("memory", "history", "--json"),
        "skills": skills,
        **{f"skill {name}": running.hermes("skills", "show", name, "--json") for name in names},
        "jobs": running.hermes("jobs", "list", "--json"),
    }


@pytest.mark.usefixtures("no_way_to_metadata")
def test_what_is_printed_of_a_stack_is_done(running: Stack) -> None:
    ways = {"logs --follow": follow, "run --rm operator chat": talk}
    done = list[str]()
    for line in sorted({line.plain for line in printed(pages())}):
        words = line.removeprefix(PRINTED).removeprefix("stack ")
        if words == line or any(each in line for each in OF_A_BACKUP):
            continue
        act = next((act for begin, act in ways.items() if words.startswith(begin)), Stack.compose)
        act(running, *shlex.split(words))
        done.append(words)
    assert len(done) >= 8, done


def follow(running: Stack, *argv: str) -> None:
    with running.start(*argv) as following:
        assert following.stdout is not None
        assert following.stdout.readline()
        following.terminate()


def talk(running: Stack, *argv: str) -> None:
    with terminal(running, *argv) as chat:
        chat.wait_for(PROMPT)
        chat.type("hello")
        chat.wait_for("You said: hello")
        chat.press(CTRL_D)
        assert chat.wait_end() == 0


def test_prometheus_reads_all(running: Stack) -> None:
    query = ("exec", "-T", "prometheus", "promtool", "query", "instant")
    deadline = time.monotonic() + 60
    while True:
        said = running.compose(*query, "http://localhost:9090", "sum(up{job='hermes'})")
        if "=> 4 @" in said:
            return
        assert time.monotonic() < deadline, said
        time.sleep(1)
