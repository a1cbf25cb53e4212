"""Accounts of platforms: held by one replica at a time, and left in a state that the next knows."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from typing import cast

import pytest
import sqlalchemy as sa
from msgspec.structs import replace
from sqlalchemy import Connection

from gateway_service.errors import AccountRefused, OutcomeUnknown, Unreachable
from gateway_service.messages import Address, ButtonPress, Content, FileKind, RemoteFile
from gateway_service.outbox.worker import PLACEHOLDER, UNSHOWN
from gateway_service.platforms.base import Destination
from gateway_service.storage import accounts, inbox, migrations, outbox, schema
from gateway_service.storage.accounts import AccountLease, lease_table
from gateway_service.storage.outbox import REPEAT, Delivery, Kind
from gateway_service.turns.router import MISTAKE
from services.clock import SystemClock
from services.database import Database
from services.database.leases import Fenced, new_owner
from services.database.migrations import prepare
from tests.fakes.platform import MemoryPlatform
from tests.integration.gateway_replicas import LONG_S, SHORT_S, Agent, replica
from tests.support.executors import until

CHAT = Address("default", "memory", "1", "5")


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    """The gateway's tables, of each kind in turn."""
    async with Database(database_url, "gateway") as opened:
        await prepare(opened, migrations)
        yield opened


async def test_only_one_replica_polls_and_the_other_takes_over(
    database: Database, agent: Agent
) -> None:
    platform = MemoryPlatform()
    async with replica(database, platform, agent):
        await until(lambda: platform.listeners == 1)
        async with replica(database, platform, agent):
            platform.say("5", "answer one")
            await until(lambda: platform.texts("5") == ["one"])
            await asyncio.sleep(0.1)
            assert platform.most_listeners == 1
    async with replica(database, platform, agent):
        platform.say("5", "answer two")
        await until(lambda: platform.texts("5") == ["one", "two"])
    assert platform.most_listeners == 1
    assert not platform.listeners


async def test_an_event_of_a_wrong_form_does_not_hold_up_its_chat(
    database: Database, agent: Agent
) -> None:
    platform = MemoryPlatform()
    async with replica(database, platform, agent):
        platform.say("5", cast("str", ["no", "text"]))
        platform.say("5", "answer one")
        await until(lambda: PLACEHOLDER.text not in platform.texts("5") != [])
        assert platform.texts("5") == ["one"]


async def test_the_account_of_a_dead_replica_is_taken_over_when_its_lease_has_ended(
    database: Database, agent: Agent
) -> None:
    platform, dead = MemoryPlatform(), new_owner("dead")
    leases = lease_table(SHORT_S)
    await database.write(lambda conn: accounts.add(conn, "memory:1"))
    lease = await database.write(lambda conn: leases.claim(conn, "memory:1", dead))
    assert lease is not None
    async with replica(database, platform, agent):
        platform.say("5", "answer one")
        await asyncio.sleep(SHORT_S / 3)
        assert not platform.most_listeners
        await until(lambda: platform.texts("5") == ["one"])


async def test_who_has_lost_the_account_stops(database: Database, agent: Agent) -> None:
    platform, thief = MemoryPlatform(), new_owner("thief")
    async with replica(database, platform, agent, SHORT_S):
        await until(lambda: platform.listeners == 1)
        leases = lease_table(LONG_S)
        await database.write(lambda conn: leases.clear_earlier_boots(conn, new_owner("replica")))
        stolen = await database.write(lambda conn: leases.claim(conn, "memory:1", thief))
        assert stolen is not None
        await until(lambda: platform.listeners == 0)
        platform.say("5", "answer one")
        await asyncio.sleep(0.2)
        assert platform.chats == {}


async def test_a_late_owner_writes_nothing(database: Database) -> None:
    leases, now = lease_table(SHORT_S), SystemClock().now()
    await database.write(lambda conn: accounts.add(conn, "memory:1"))
    late, next_one = new_owner("late"), new_owner("next")
    lease = await database.write(lambda conn: leases.claim(conn, "memory:1", late))
    assert lease is not None
    account = AccountLease("memory", "1", "default", database, leases, lease)
    await account.write(lambda conn: outbox.add(conn, Delivery("a", CHAT, [PLACEHOLDER]), now))
    await database.write(lambda conn: leases.release(conn, lease))
    assert await database.write(lambda conn: leases.claim(conn, "memory:1", next_one))
    with pytest.raises(Fenced):
        await account.write(lambda conn: outbox.begin(conn, "memory", "1", "5", now))
    waiting = await database.read(lambda conn: outbox.waiting_chats(conn, "memory", "1"))
    assert list(waiting) == ["5"]


async def test_what_was_being_sent_is_finished_by_the_platforms_rule(
    database: Database, agent: Agent
) -> None:
    platform, now = MemoryPlatform(), SystemClock().now()
    async with platform:
        shown = await platform.send(Destination(CHAT.chat_id), Content("half an ans"), "k")

    def left_by_the_dead(conn: Connection) -> None:
        for name, kind in (("plain", Kind.MESSAGE), ("answer", Kind.ANSWER)):
            outbox.add(conn, Delivery(name, CHAT, [Content(name)], kind), now)
            part = outbox.begin(conn, "memory", "1", "5", now)
            assert part is not None
        outbox.show(conn, "answer", Content("the answer"), now)
        outbox.add(conn, Delivery("edited", CHAT, [PLACEHOLDER], Kind.ANSWER), now)
        part = outbox.begin(conn, "memory", "1", "5", now)
        assert part is not None
        outbox.settle(conn, replace(part, message_id=shown), outbox.State.SENT, now)
        outbox.show(conn, "edited", Content("another answer"), now)
        assert outbox.begin(conn, "memory", "1", "5", now) is not None

    await database.write(left_by_the_dead)
    async with replica(database, platform, agent):
        expected = ["another answer", f"{REPEAT}plain", "the answer"]
        await until(lambda: platform.texts("5") == expected)


async def test_a_turn_that_began_unheard_is_not_begun_again_by_who_asks_otherwise(
    database: Database, agent: Agent
) -> None:
    platform = MemoryPlatform()
    agent.turns.tells_nobody = True
    async with replica(database, platform, agent):
        platform.say("5", "answer one")
        (turn_id,) = await agent.turns.started(1)
    agent.turns.tells_nobody = False
    agent.turns.requests[turn_id].model = "of the settings before"
    async with replica(database, platform, agent):
        await until(lambda: platform.texts("5") == ["one"])
    assert list(agent.turns.requests) == [turn_id]
    assert agent.turns.start_calls[turn_id] == 2


async def test_messages_of_a_chat_are_begun_in_order(database: Database, agent: Agent) -> None:
    platform = MemoryPlatform()
    agent.turns.unreachable = True
    async with replica(database, platform, agent):
        for number in range(5):
            platform.say("5", f"answer {number}")
        await until(lambda: platform.texts("5") == [PLACEHOLDER.text])
        agent.turns.unreachable = False
        await until(lambda: platform.texts("5") == [str(number) for number in range(5)])
    begun = [request.parts[0].text for request in agent.turns.requests.values()]
    assert begun == [f"answer {number}" for number in range(5)]


async def test_an_answer_survives_its_deleted_placeholder_and_lost_connections(
    database: Database, agent: Agent
) -> None:
    platform = MemoryPlatform()
    async with replica(database, platform, agent):
        platform.say("5", "wait")
        await until(lambda: platform.texts("5") == [PLACEHOLDER.text])
        platform.chats["5"].clear()
        platform.say("5", "answer two")
        await until(lambda: platform.texts("5") == ["two"])
        [first, _] = list(agent.turns.requests)
        agent.turns.release(first)
        await until(lambda: len(platform.texts("5")) == 2)
        platform.failures.extend([Unreachable("down"), OutcomeUnknown("cut")])
        platform.say("6", "answer three")
        # What may have been created is left behind, but there is one answer.
        await until(lambda: platform.texts("6")[-1:] == ["three"])
    assert platform.texts("6") in (["three"], [PLACEHOLDER.text, "three"])


async def test_an_answer_follows_its_chat_and_so_does_the_session(
    database: Database, agent: Agent
) -> None:
    platform = MemoryPlatform()
    async with replica(database, platform, agent):
        platform.say("5", "wait one")
        [turn] = await agent.turns.started(1)
        await until(lambda: platform.texts("5") == [PLACEHOLDER.text])
        platform.moved["5"] = "-9"
        agent.turns.release(turn)
        await until(lambda: platform.texts("-9") == ["one"])
        platform.say("-9", "answer two")
        await until(lambda: platform.texts("-9") == ["one", "two"])
        assert platform.texts("5") == [PLACEHOLDER.text]
    assert len({each.session_id for each in agent.turns.requests.values()}) == 1


async def test_an_answer_whose_edit_is_refused_is_sent(database: Database, agent: Agent) -> None:
    platform = MemoryPlatform()
    async with replica(database, platform, agent):
        platform.say("5", "wait one")
        [turn] = await agent.turns.started(1)
        await until(lambda: bool(platform.typed) and platform.texts("5") == [PLACEHOLDER.text])
        platform.refuse_edits = True
        agent.turns.release(turn)
        await until(lambda: platform.texts("5")[1:] == ["one"])
        assert platform.texts("5")[0] == PLACEHOLDER.text


async def test_an_account_that_is_refused_is_tried_again(database: Database, agent: Agent) -> None:
    platform = MemoryPlatform()
    platform.listen_failures.extend([Unreachable("down"), AccountRefused("another program polls")])
    async with replica(database, platform, agent) as running:
        platform.say("5", "answer one")
        await until(lambda: platform.texts("5") == ["one"])
        assert running.registry.get_sample_value(
            "hermes_platform_connected", {"platform": "memory"}
        )


class _Faulty(MemoryPlatform):
    """One with a mistake in it."""

    async def acknowledge(self, press: ButtonPress, text: str) -> None:
        raise KeyError(press.press_id)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (RuntimeError("the cable is missing"), "RuntimeError('the cable is missing')"),
        (
            ModuleNotFoundError("No module named 'x'"),
            "it needs a package more: pip install 'hermes-services[memory]'",
        ),
    ],
)
async def test_an_error_that_is_not_ours_has_words(
    error: Exception, words: str, database: Database, agent: Agent, caplog: pytest.LogCaptureFixture
) -> None:
    platform = MemoryPlatform()
    platform.listen_failures.append(error)
    async with replica(database, platform, agent):
        platform.say("5", "answer hello")
        await until(lambda: platform.texts("5") == ["hello"])
    said = [each for each in caplog.messages if "memory does not run" in each]
    assert said == [f"memory does not run: {words}"]


async def test_a_chat_goes_on_after_a_mistake_of_ours(database: Database, agent: Agent) -> None:
    platform = _Faulty()
    async with replica(database, platform, agent):
        platform.press("5", "a:once:apr_1")
        platform.say("5", "answer one")
        await until(lambda: platform.texts("5") == ["one"])
    assert [request.parts[0].text for request in agent.turns.requests.values()] == ["answer one"]


class _Poisoned(MemoryPlatform):
    """One that fails over a certain text, with an error that is none of ours."""

    async def edit(self, destination: Destination, message_id: str, content: Content) -> None:
        if content.text == "poison":
            raise ValueError(content.text)
        await super().edit(destination, message_id, content)


async def test_an_answer_that_cannot_be_sent_holds_up_no_others(
    database: Database, agent: Agent
) -> None:
    platform = _Poisoned()
    async with replica(database, platform, agent):
        platform.say("5", "answer poison")
        await until(lambda: platform.texts("5") == [UNSHOWN.text])
        platform.say("5", "answer one")
        await until(
            lambda: len(platform.texts("5")) == 2 and PLACEHOLDER.text not in platform.texts("5")
        )
        assert platform.texts("5") == [UNSHOWN.text, "one"]


class _Broken(MemoryPlatform):
    """One that sends nothing, for a reason that is none of ours."""

    async def send(self, destination: Destination, content: Content, key: str) -> str:
        raise ValueError(content.text)


async def test_a_message_of_which_nothing_can_be_shown_is_given_up(
    database: Database, agent: Agent
) -> None:
    platform = _Broken()
    async with replica(database, platform, agent):
        platform.say("5", "answer one")
        states = sa.select(schema.outbox.c.state).where(schema.outbox.c.platform == "memory")
        while True:
            found = await database.read(lambda conn: conn.execute(states).scalars().all())
            if found == [outbox.State.ABANDONED]:
                break
            await asyncio.sleep(0.05)
    assert platform.texts("5") == []


class _Unreadable(MemoryPlatform):
    """One whose files cannot be read, for a reason that is none of ours."""

    async def download(self, file: RemoteFile) -> AsyncGenerator[bytes]:
        if file.name:
            raise ValueError(file.name)
        yield b""


async def test_a_message_that_fails_for_no_passing_reason_is_told_and_leaves_the_chat_free(
    database: Database, agent: Agent, tmp_path: Path
) -> None:
    platform = _Unreadable()
    async with replica(database, platform, agent, home=tmp_path):
        platform.say("5", "answer two", files=(RemoteFile(FileKind.DOCUMENT, "1", "notes.txt"),))
        await until(lambda: platform.texts("5") == [MISTAKE])
        platform.say("5", "answer one")
        await until(lambda: platform.texts("5") == [MISTAKE, "one"])
    states = sa.select(schema.inbox.c.state).distinct()
    found = await database.read(lambda conn: conn.execute(states).scalars().all())
    assert found == [inbox.State.CLOSED]


async def test_an_event_that_cannot_be_read_is_not_read_in_a_loop(
    database: Database, agent: Agent, caplog: pytest.LogCaptureFixture
) -> None:
    from_a_newer_replica = sa.insert(schema.inbox).values(
        platform="memory",
        account_id="1",
        event_id="1",
        profile="default",
        session_key="agent:main:memory:dm:5",
        payload={},
        state=inbox.State.RECEIVED,
        received_at=SystemClock().now(),
    )
    await database.write(lambda conn: conn.execute(from_a_newer_replica))

    def failures() -> int:
        return sum("inbox of" in record.getMessage() for record in caplog.records)

    async with replica(database, MemoryPlatform(), agent):
        await until(lambda: failures() > 0)
        await asyncio.sleep(0.3)
        assert failures() <= 2
