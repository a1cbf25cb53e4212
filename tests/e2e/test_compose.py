"""The compose stack: a conversation with a command, while one service after another is killed."""

import json
import time
from collections.abc import Iterator

import pytest

from tests.compose.stack import CHAT_WITHIN_S, SERVICES, Stack, stack
from tests.e2e.model import TELL, calls, rule, terminal_call
from tests.e2e.processes import wait_until, with_marker

pytestmark = pytest.mark.timeout(1500)

NAP_S = "7.39125"
"""Seconds that no other sleep on this machine takes: by them the command is found."""
RULES = (
    rule(
        "a nap then",
        calls(terminal_call(f"echo >>naps; sleep {NAP_S}; echo and over; wc -l <naps")),
        TELL,
    ),
    rule("", {"text": "You said: {user}"}),
)


@pytest.fixture(scope="module")
def running() -> Iterator[Stack]:
    """The stack, started once for all tests here."""
    with stack(RULES) as started:
        yield started


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
    assert len(sessions) == 1 + len(SERVICES), sessions


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


def test_prometheus_reads_all(running: Stack) -> None:
    query = ("exec", "-T", "prometheus", "promtool", "query", "instant")
    deadline = time.monotonic() + 60
    while True:
        said = running.compose(*query, "http://localhost:9090", "sum(up{job='hermes'})")
        if "=> 4 @" in said:
            return
        assert time.monotonic() < deadline, said
        time.sleep(1)
