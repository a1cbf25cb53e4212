"""Codes of pairings: how long they are valid, and how many may be wrong."""

from collections.abc import AsyncIterator
from datetime import timedelta
from functools import partial

import pytest
from msgspec.structs import replace

from gateway_service.chats import pairing
from gateway_service.chats.access import Access
from gateway_service.chats.pairing import Pairings
from gateway_service.messages import Source
from gateway_service.storage import accounts, migrations, outbox, pairings
from gateway_service.storage.accounts import AccountLease, lease_table
from gateway_service.storage.pairings import Person
from services.database import Database
from services.database.leases import new_owner
from services.database.migrations import prepare
from services.errors import FailedPrecondition, NotFound
from tests.fakes.clock import ManualClock

EVE = Source("memory", "9", user_id="9", user_name="Eve\n\u202eve")


@pytest.fixture
async def account(database_url: str) -> AsyncIterator[AccountLease]:
    """A held account, on each kind of database in turn."""
    leases = lease_table(30)
    async with Database(database_url, "gateway") as database:
        await prepare(database, migrations)
        await database.write(lambda conn: accounts.add(conn, "memory:1"))
        lease = await database.write(lambda conn: leases.claim(conn, "memory:1", new_owner("one")))
        assert lease is not None
        yield AccountLease("memory", "1", "default", database, leases, lease)


async def ask(account: AccountLease, source: Source, clock: ManualClock) -> str:
    """Return the code that a stranger is sent; empty if there is none."""
    before = await account.database.read(lambda conn: outbox.waiting_chats(conn, "memory", "1"))
    assert source.chat_id not in before
    await account.write(lambda conn: pairing.offer_code(conn, account, source, clock.now()))
    part = await account.write(
        lambda conn: outbox.begin(conn, "memory", "1", source.chat_id, clock.now())
    )
    return "" if part is None else part.content.text.split("`")[1]


async def test_a_code_is_given_every_ten_minutes_and_valid_for_an_hour(
    account: AccountLease,
) -> None:
    clock = ManualClock()
    known = Pairings(account.database, clock)
    first = await ask(account, EVE, clock)
    assert await ask(account, EVE, clock) == ""
    await clock.advance(10 * 60)
    second = await ask(account, EVE, clock)
    assert len({first, second, ""}) == 3
    with pytest.raises(NotFound):
        await known.approve("default", first, "cli:me")
    with pytest.raises(NotFound):
        await known.approve("other", second, "cli:me")
    assert [each.user_name for each in await known.list("default")] == ["Eve ve"]
    await clock.advance(60 * 60)
    assert await known.list("default") == []
    with pytest.raises(NotFound):
        await known.approve("default", second, "cli:me")
    third = await ask(account, EVE, clock)
    approval = await known.approve("default", third, "cli:me", is_admin=True)
    assert approval.is_new
    assert not (await known.approve("default", third, "cli:me")).is_new
    approved = approval.pairing
    assert (approved.person.user_id, approved.approved_by) == ("9", "cli:me")
    person = pairing.person_of(account, EVE)
    access = await account.database.read(
        lambda conn: pairing.open_to(conn, Access(frozenset({"7"})), person)
    )
    assert access.allows(EVE)
    assert access.is_admin(EVE)
    assert access.is_admin(replace(EVE, user_id="7"))


async def test_few_people_wait_at_a_time(account: AccountLease) -> None:
    clock = ManualClock()
    people = [replace(EVE, user_id=f"{n}", chat_id=f"{n}") for n in range(4)]
    codes = [await ask(account, each, clock) for each in people]
    assert [bool(code) for code in codes] == [True, True, True, False]
    await clock.advance(60 * 60)
    assert await ask(account, people[-1], clock)


async def test_wrong_codes_lock_for_an_hour(account: AccountLease) -> None:
    clock = ManualClock()
    replicas = [Pairings(account.database, clock) for _ in range(2)]
    code = await ask(account, EVE, clock)
    for number in range(5):
        with pytest.raises(NotFound):
            await replicas[number % 2].approve("default", "WRONG222", "cli:me")
    for given in ("WRONG222", code):
        with pytest.raises(FailedPrecondition):
            await replicas[0].approve("default", given, "cli:me")
    await clock.advance(timedelta(hours=1).total_seconds())
    code = await ask(account, EVE, clock)
    assert (await replicas[1].approve("default", code, "cli:me")).pairing.approved_at == clock.now()


async def test_messages_with_codes_are_deleted_once_sent(account: AccountLease) -> None:
    clock = ManualClock()
    await account.write(lambda conn: pairing.offer_code(conn, account, EVE, clock.now()))
    begin = partial(outbox.begin, platform="memory", account_id="1", chat_id="9", now=clock.now())
    await account.write(lambda conn: pairing.forget(conn, clock.now()))
    part = await account.write(begin)
    assert part is not None
    await account.write(
        lambda conn: outbox.settle(
            conn, replace(part, message_id="m"), outbox.State.SENT, clock.now()
        )
    )
    await account.write(lambda conn: pairing.forget(conn, clock.now()))
    assert await account.database.read(lambda conn: outbox.find(conn, part.delivery_id)) == []


async def test_a_person_is_known_on_one_platform_of_one_profile(account: AccountLease) -> None:
    clock = ManualClock()
    code = await ask(account, EVE, clock)
    await Pairings(account.database, clock).approve("default", code, "cli:me")
    for person in (Person("other", "memory", "9"), Person("default", "slack", "9")):
        found = await account.database.read(partial(pairings.find, person=person))
        assert found is None
