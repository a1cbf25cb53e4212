"""What was said is found, on SQLite as on PostgreSQL."""

import asyncio
import itertools
import random
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa
from sqlalchemy import Connection
from sqlalchemy.exc import ProgrammingError

from agent_service.records.search_query import Query, parse, terms
from agent_service.storage.schema import message
from agent_service.storage.search import index, queries
from agent_service.storage.search.index import SearchUpkeep, message_text, sort_in
from agent_service.storage.search.queries import Hit, SearchQuery
from services.database import Database
from services.errors import InvalidArgument
from tests.fakes.clock import HastyClock
from tests.integration.agent_history import BEGUN, history, said, store
from tests.support.executors import until

Place = tuple[str, int]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


@pytest.fixture
async def filled(database_url: str) -> AsyncIterator[Database]:
    """Some conversations, of two profiles."""

    def fill(conn: Connection) -> None:
        store(
            conn,
            "old",
            [
                said("user", "How does the Docker network work?"),
                said("assistant", "A docker bridge is a network of the host."),
                said("user", "And podman?"),
                said("assistant", "", tool_calls=[_call("terminal", '{"command": "ip a"}')]),
                said("tool", "eth0 is the podman0 network", tool_call_id="1"),
                said("assistant", "Much the same; Café included."),
            ],
        )
        store(
            conn,
            "new",
            [
                said("user", "docker docker docker, is it running?"),
                said("assistant", "The docker daemon is running in /usr/local/bin/foo_bar."),
            ],
            begun=BEGUN + timedelta(days=3),
        )
        hers = [said("user", "docker network of hers")]
        store(conn, "hers", hers, profile="hers", begun=BEGUN + timedelta(days=4))

    async with history(database_url) as database:
        await database.write(fill)
        yield database


def _call(name: str, arguments: str) -> dict[str, object]:
    return {"id": "1", "type": "function", "function": {"name": name, "arguments": arguments}}


def places(hits: list[Hit]) -> list[Place]:
    return [(hit.session_id, hit.sequence) for hit in hits]


async def found(
    database: Database, text: str, profile: str = "default", **how: object
) -> list[Place]:
    wanted = SearchQuery(profile, parse(text), **how)  # type: ignore[arg-type]
    return places(await database.read(lambda conn: queries.newest(conn, wanted, 10)))


async def test_the_newest_come_first(filled: Database) -> None:
    assert await found(filled, "docker") == [("new", 2), ("new", 1), ("old", 2), ("old", 1)]
    assert await found(filled, "DOCKER network") == [("old", 2), ("old", 1)]
    assert await found(filled, '"docker network"') == [("old", 1)]
    assert await found(filled, "podman OR daemon") == [("new", 2), ("old", 3)]
    assert await found(filled, "cafe") == [("old", 6)]
    assert await found(filled, "foo_bar") == [("new", 2)]
    assert await found(filled, "local/bin") == [("new", 2)]
    assert await found(filled, "terminal ip") == [("old", 4)]
    assert await found(filled, "absent docker") == []


async def test_a_profile_finds_only_its_own(filled: Database) -> None:
    assert await found(filled, "docker", profile="hers") == [("hers", 1)]
    assert await found(filled, "docker", profile="nobody") == []
    assert await found(filled, "docker", profile="hers", session_id="old") == []


async def test_no_text_stands_before_the_hits_of_another_profile(filled: Database) -> None:
    mark = index.token("P", "default")

    def forge(conn: Connection, written: str) -> None:
        said_so = [said("user", f"docker {written}") for _ in range(30)]
        store(conn, "theirs", said_so, profile="theirs", begun=BEGUN + timedelta(days=5))

    await filled.write(lambda conn: forge(conn, f"\u2119{mark[1:]}"))
    before = await found(filled, "docker")
    as_once = sa.update(message_text).where(message_text.c.profile == "theirs")
    await filled.write(lambda conn: conn.execute(as_once.values(terms=f"docker {mark}")))
    assert (
        await found(filled, "docker") == before == [("new", 2), ("new", 1), ("old", 2), ("old", 1)]
    )


async def test_what_is_found_can_be_narrowed(filled: Database) -> None:
    assert await found(filled, "docker", session_id="old") == [("old", 2), ("old", 1)]
    assert await found(filled, "docker", role="user") == [("new", 1), ("old", 1)]
    assert await found(filled, "network", role="tool") == [("old", 5)]
    assert await found(filled, "docker", excluding=("new",)) == [("old", 2), ("old", 1)]
    assert await found(filled, "network", session_id="old", between=(2, 4)) == [("old", 2)]
    later = BEGUN + timedelta(days=1)
    assert await found(filled, "docker", since=later) == [("new", 2), ("new", 1)]
    assert await found(filled, "docker", until=later) == [("old", 2), ("old", 1)]
    minute = timedelta(minutes=1)
    since, until = BEGUN + minute, BEGUN + 2 * minute
    assert await found(filled, "docker", since=since, until=until) == [("old", 2)]


async def test_a_page_goes_on_where_the_last_one_ended(filled: Database) -> None:
    wanted = SearchQuery("default", parse("docker"))
    first = await filled.read(lambda conn: queries.newest(conn, wanted, 3))
    assert len(first) == 3
    assert await found(filled, "docker", before=first[-1].id) == [("old", 1)]


async def test_the_best_come_first_where_that_is_wanted(filled: Database) -> None:
    wanted = SearchQuery("default", parse("docker"))
    ranked = await filled.read(lambda conn: queries.most_relevant(conn, wanted, 10))
    assert places(ranked)[0] == ("new", 1)
    assert sorted(places(ranked)) == [("new", 1), ("new", 2), ("old", 1), ("old", 2)]


async def test_no_text_is_an_error_of_the_database(filled: Database) -> None:
    draw = random.Random(7)
    parts = "docker NEAR AND NOT OR \" ' * : ^ ( ) { } [ ] - + ~ & | ! < > <-> \\ ; % $$ é 漢 \0 \n"
    tried = 0
    for _ in range(300):
        text = "".join(draw.choice([*parts.split(" "), " "]) for _ in range(draw.randrange(1, 12)))
        try:
            await found(filled, text)
        except InvalidArgument:
            continue
        tried += 1
    assert tried > 100


async def test_what_is_removed_is_not_found_again(filled: Database) -> None:
    def remove(conn: Connection) -> None:
        index.remove(conn, "old", after=1)
        gone = (message.c.session_id == "old") & (message.c.sequence > 1)
        conn.execute(sa.delete(message).where(gone))

    await filled.write(remove)
    assert await found(filled, "docker") == [("new", 2), ("new", 1), ("old", 1)]
    assert await found(filled, "podman") == []


_SAMPLED_MICROSECOND = 340
"""The first message of such a time is one of those that PostgreSQL sees the spread of all from."""
_TALK = ("in", "the", "end of", "a day", "words", "of old fame", "docker", "kubernetes", "東", "京")


def _talk(draw: random.Random, count: int) -> list[tuple[datetime, str, str]]:
    """When something was said, by whom and what: at once as well as after months, oldest first."""
    said_at, told = (BEGUN - _EPOCH) // _MICROSECOND, list[tuple[datetime, str, str]]()
    for number in range(count):
        said_at += draw.choice((1, 10**4, 10**6, 10**8, 10**10, 10**13))
        said_at += (_SAMPLED_MICROSECOND - said_at) % 1021
        words = draw.choices(_TALK, k=draw.randrange(1, 12))
        role = draw.choice(("user", "assistant"))
        word = "formerly" if number < count // 3 else "lately"
        told.append((_EPOCH + said_at * _MICROSECOND, role, " ".join([*words, word])))
    return told


def _is_said(query: Query, text: str) -> bool:
    padded = f" {terms(text)} "
    return all(any(f" {phrase} " in padded for phrase in group) for group in query.groups)


async def test_in_slices_of_time_is_found_what_a_look_at_each_message_finds(
    database_url: str,
) -> None:
    draw = random.Random(3)
    talk = _talk(draw, 250)

    def fill(conn: Connection) -> None:
        for number, (at, role, text) in enumerate(talk):
            store(conn, f"s{number}", [said(role, text)], begun=at)
        store(conn, "hers", [said("user", " ".join(_TALK))], profile="hers", begun=talk[9][0])

    texts = ["the", "formerly", "lately old", '"of the"', '"in the end" OR kubernetes', "東京"]
    texts += ['"of the" formerly', '"end of a day"', '"docker kubernetes"', "absent", '"of" OR a']
    async with history(database_url) as database:
        await database.write(fill)
        for text, most in itertools.product(texts, (1, 7, 300)):
            since, until = sorted(at for at, _, _ in draw.sample(talk, 2))
            for how in ({}, {"role": "user"}, {"since": since}, {"since": since, "until": until}):
                wanted = SearchQuery("default", parse(text), **how)  # type: ignore[arg-type]
                hits = await database.read(
                    lambda conn, wanted=wanted, most=most: queries.newest(conn, wanted, most)
                )
                assert (
                    places(hits)
                    == [
                        (f"s{number}", 1)
                        for number, (at, role, said_) in reversed(list(enumerate(talk)))
                        if _is_said(wanted.query, said_)
                        and role == (wanted.role or role)
                        and (wanted.since is None or wanted.since <= at)
                        and (wanted.until is None or at < wanted.until)
                    ][:most]
                )
                ranked = await database.read(
                    lambda conn, wanted=wanted: queries.most_relevant(conn, wanted, 300)
                )
                assert len(hits) == min(most, len(ranked))


async def test_copies_are_found_in_their_session_only(database_url: str) -> None:
    def fill(conn: Connection) -> None:
        store(conn, "trunk", [said("user", "planted")])
        store(conn, "branch", [said("user", "planted")], is_indexed=False)
        index.index_session(conn, "branch", is_copy=True)

    async with history(database_url) as database:
        await database.write(fill)
        assert await found(database, "planted") == [("trunk", 1)]
        assert await found(database, "planted", session_id="branch") == [("branch", 1)]


async def test_postgresql_sorts_what_is_new_into_its_index_afterwards(postgres_url: str) -> None:
    clock = HastyClock()
    async with history(postgres_url) as database:

        async def say(session_id: str) -> None:
            await database.write(lambda conn: store(conn, session_id, [said("user", "in docker")]))

        await say("one")
        assert await database.write(sort_in) > 0
        await say("two")
        assert await found(database, "docker") == [("two", 1), ("one", 1)]
        upkeep = asyncio.create_task(SearchUpkeep(database, clock).run())

        async def sleeps_again() -> bool:
            return len(clock.slept) > 1

        await until(sleeps_again)
        upkeep.cancel()
        await asyncio.wait([upkeep])
        assert await database.write(sort_in) == 0
        assert await found(database, "docker") == [("two", 1), ("one", 1)]


async def test_who_does_not_own_the_index_leaves_it_to_postgresql(postgres_url: str) -> None:
    async with history(postgres_url) as database:
        role = f"guest_{sa.make_url(postgres_url).database}"
        grants = (f"CREATE ROLE {role} LOGIN", f"GRANT USAGE ON SCHEMA agent TO {role}")
        for statement in grants:
            await database.write(lambda conn, say=statement: conn.execute(sa.text(say)))
    guest = sa.make_url(postgres_url).set(username=role)
    async with Database(guest.render_as_string(hide_password=False), "agent") as database:
        await asyncio.wait_for(SearchUpkeep(database, HastyClock()).run(), 10)
        with pytest.raises(ProgrammingError, match="must be owner"):
            await database.write(sort_in)
