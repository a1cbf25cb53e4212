"""Looking names up that no server answers for, as many as sandboxes like."""

import asyncio
import threading
from collections.abc import Iterator, Sequence
from ipaddress import ip_address

import pytest

from executor_service.errors import EgressRefused
from executor_service.network.gate import Deadlines, Gate, Resolver
from executor_service.records.network_policy import Target
from services.rpc.public_addresses import Address, AddressVetting

SANDBOXES = 20
TURNS = 4
"""What one sandbox may look up at a time."""
PRIVATE = ip_address("10.0.0.1")


@pytest.fixture
def answers() -> Iterator[threading.Event]:
    """Set once the servers answer; they do at the end."""
    answers = threading.Event()
    yield answers
    answers.set()


def gate(answers: threading.Event) -> Gate:
    """A gate to a world in which some names are not answered for."""

    def look_up(host: str) -> Sequence[Address]:
        if host.startswith("stuck"):
            answers.wait(30)
        return [PRIVATE]

    return Gate(AddressVetting(), Resolver(look_up), Deadlines(resolve_s=0.5))


async def outcome(gate: Gate, turns: asyncio.Semaphore, host: str) -> str:
    """How a connection is refused."""
    with pytest.raises(EgressRefused) as refused:
        async with gate.connect(Target(host, 443), turns):
            pass
    return refused.value.outcome


async def test_sandboxes_that_wait_for_names_keep_no_other_waiting(
    answers: threading.Event,
) -> None:
    opened = gate(answers)
    attackers = [asyncio.Semaphore(TURNS) for _ in range(SANDBOXES)]
    stuck = [
        outcome(opened, turns, f"stuck{number}.test")
        for turns in attackers
        for number in range(2 * TURNS)
    ]
    assert set(await asyncio.gather(*stuck)) == {"unresolved"}
    # They still have all that they may have, and another one has its own.
    assert all(turns.locked() for turns in attackers)
    assert await outcome(opened, asyncio.Semaphore(TURNS), "good.test") == "address_refused"


async def test_a_turn_is_over_when_its_lookup_is(answers: threading.Event) -> None:
    opened, turns = gate(answers), asyncio.Semaphore(1)
    assert await outcome(opened, turns, "stuck.test") == "unresolved"
    assert await outcome(opened, turns, "good.test") == "unresolved"
    assert turns.locked()
    answers.set()
    async with asyncio.timeout(5):
        await turns.acquire()
    turns.release()
    assert await outcome(opened, turns, "good.test") == "address_refused"
