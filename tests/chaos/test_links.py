"""Links that are cut, slow or half open: nothing is lost, nothing is twice, all is well soon."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from itertools import product
from pathlib import Path
from time import monotonic

import pytest
import sqlalchemy as sa
from msgspec.structs import replace

from agent_service.storage import schema
from services.rpc.addresses import TcpAddress
from tests.chaos.crashes import RULES, WRITTEN, asked_of
from tests.chaos.linked import LINKS, Linked, linked
from tests.fakes.model import fake_model
from tests.integration.agent_parts import answer
from tests.integration.agent_processes import AgentProcess
from tests.integration.test_agent_takeover import SLOW, Stage, staged
from tests.security.scale import scale_name
from tests.support.executors import until
from tests.support.links import Fault, link_to

FULL = scale_name() == "full"
SEED = 4
EVERY = random.Random(SEED).sample(list(product(LINKS, Fault)), len(LINKS) * len(Fault))
ROUNDS = 200 if FULL else len(EVERY)
CONVERSATIONS = 3
HEALED_WITHIN_S = 10.0
TURN_S = 2.0
"""How long a turn takes by itself."""


@pytest.fixture
async def hermes(tmp_path: Path, postgres_url: str) -> AsyncIterator[Linked]:
    async with (
        fake_model({"rules": list(RULES)}) as model,
        linked(tmp_path, model.url, postgres_url) as running,
    ):
        yield running


@pytest.mark.slow
@pytest.mark.timeout(3600 if FULL else 300)
async def test_a_link_in_trouble_loses_nothing(
    hermes: Linked, record_property: Callable[[str, str], None]
) -> None:
    dice = random.Random(SEED)
    sessions, longest_s, cut_off = [""] * CONVERSATIONS, 0.0, 0
    for number in range(ROUNDS):
        name, fault = EVERY[number] if number < len(EVERY) else dice.choice(EVERY)
        async with AsyncExitStack() as stack:
            watchers = [
                await stack.enter_async_context(asked_of(hermes.operator, "two commands", session))
                for session in sessions
            ]
            await asyncio.sleep(dice.uniform(0, 0.8))
            cut_off += sum(not watcher.seen["turn_finished"] for watcher in watchers)
            hermes.links[name].break_with(fault)
            await asyncio.sleep(dice.uniform(0.3, 0.9))
            hermes.links[name].heal()
            healed = monotonic()
        took = monotonic() - healed
        longest_s = max(longest_s, took)
        assert took < TURN_S + HEALED_WITHIN_S, f"{name} {fault}"
        for watcher in watchers:
            watcher.check_all_came_once()
        sessions = [watcher.session_id for watcher in watchers]
    assert len({*sessions}) == CONVERSATIONS
    for session_id in sessions:
        async with asked_of(hermes.operator, "show the log", session_id) as showing:
            pass
        assert showing.answer == "\n".join([WRITTEN] * ROUNDS), "each command ran once"
    figure = f"{ROUNDS} rounds, {cut_off} turns, none lost or twice; {longest_s:.1f} s at most"
    record_property("figure", figure)


async def test_who_was_cut_off_until_the_lease_ended_writes_nothing(
    tmp_path: Path, postgres_url: str
) -> None:
    url = sa.make_url(postgres_url)
    assert url.port is not None
    async with (
        staged(tmp_path, postgres_url, SLOW) as stage,
        link_to(TcpAddress("127.0.0.1", url.port)) as link,
    ):
        linked_url = url.set(port=link.port).render_as_string(hide_password=False)
        cut_off = AgentProcess(replace(stage.site, database_url=linked_url), "first")
        async with (
            cut_off as first,
            stage.agent("second") as second,
            first.client() as before,
            second.client() as after,
        ):
            turn_id = (await before.start("go")).turn_id
            await stage.has_written("log", "ran")
            link.break_with(Fault.HALF_OPEN)
            assert answer(await after.watch(turn_id)) == "done"
            stored = await everything(stage)
            link.heal()

            async def noticed() -> bool:
                return "let go" in await first.log() or "another owner" in await first.log()

            await until(noticed)
            assert await everything(stage) == stored
            assert await stage.file("log") == "ran\n"


async def everything(stage: Stage) -> list[object]:
    return [await stage.rows(table) for table in schema.metadata.sorted_tables]
