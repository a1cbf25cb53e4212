"""No RPC of any service shows or changes what is another profile's, whoever calls it.

Each RPC has a row in the table. It is called for the profile bob with the ids of what ann has, and
with ids that nobody has: both must be answered alike, nothing of ann's may be in an answer, and all
that ann has must be as it was. An RPC without a row fails.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence

import grpc.aio
import pytest
import pytest_asyncio

from services.errors import details_of
from services.rpc.auth import Identity
from tests.contract.test_policies import APPS, policy_of
from tests.fakes.model import fake_model
from tests.security.households import (
    ANN,
    BOB,
    CANARY,
    METHODS,
    NOTHING,
    SCRIPT,
    Fields,
    Household,
    Things,
    answers,
    hidden,
    household,
    service_of,
)
from tests.security.profile_table import CASES, STATE, Case, Kind
from tests.support.postgres import PostgresServer

CALLERS = {
    method[1:].replace("hermes.", "").replace(".v1.", "."): who
    for app in APPS
    for method, who in policy_of(app).items()
}


def test_every_rpc_is_in_the_table_and_in_a_policy() -> None:
    assert {method for _, method, _ in CASES} == set(METHODS) == set(CALLERS)


def test_what_is_about_all_profiles_is_for_operators() -> None:
    whole = {method for kind, method, _ in CASES if kind is Kind.WHOLE}
    assert {method for method in whole if CALLERS[method] != {Identity.OPERATOR}} == set()


def test_a_case_names_a_profile_wherever_a_request_does() -> None:
    without = [method for kind, method, _ in CASES if kind in (Kind.WHOLE, Kind.COMMON)]
    named = [each for each in without if "profile" in METHODS[each].input_type.fields_by_name]
    assert named == []


@pytest.fixture(scope="module", params=["files", "rows"])
def profiles(request: pytest.FixtureRequest) -> Iterator[str]:
    """Where profiles are kept, each kind in turn: empty for files, else a PostgreSQL database."""
    if request.param == "files":
        yield ""
        return
    postgres: PostgresServer = request.getfixturevalue("postgres")
    with postgres.migrated() as url:
        yield url


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def house(
    profiles: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Household]:
    home = await asyncio.to_thread(tmp_path_factory.mktemp, "home")
    async with fake_model(SCRIPT) as model, household(home, model.url, profiles) as opened:
        yield opened


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("service", sorted({method.partition("/")[0] for method in METHODS}))
async def test_nobody_reaches_what_is_another_profile_s(house: Household, service: str) -> None:
    problems: list[str] = []
    before = await _state(house)
    assert all(before.values()), before
    assert sum(CANARY in text for text in before.values()) > len(before) / 2
    for case in CASES:
        _, method, _ = case
        if method.partition("/")[0] == service:
            for identity in sorted(CALLERS[method]):
                found = await _problems(house, identity, case)
                problems += [f"{method} by {identity} {problem}" for problem in found]
    after = await _state(house)
    problems += [f"something changed {what}" for what in before if before[what] != after[what]]
    assert not problems, "\n".join(problems)


async def _problems(house: Household, identity: Identity, case: Case) -> list[str]:
    """What a call shows that it should not."""
    kind, method, messages = case
    if kind in (Kind.WHOLE, Kind.COMMON):
        return []
    problems: list[str] = []
    theirs = await _called(house, identity, method, messages, house.things)
    if CANARY in "".join(theirs):
        problems.append(f"shows what is ann's: {theirs}")
    if kind is Kind.ALIKE:
        nobodys = await _called(house, identity, method, messages, NOTHING)
        if hidden(house.things, "|".join(theirs)) != hidden(NOTHING, "|".join(nobodys)):
            problems.append(f"tells them apart: {theirs} and {nobodys}")
    return problems


async def _called(
    house: Household, identity: Identity, method: str, messages: Sequence[Fields], things: Things
) -> Sequence[str]:
    """What a call was answered with: messages, or why it failed."""
    told: list[str] = []
    try:
        channel = house.channels[identity].to(service_of(method))
        called = answers(channel, method, messages, things, BOB)
        told.extend([str(answer) async for answer in called])
    except grpc.aio.AioRpcError as error:
        details = details_of(error)
        told.append(f"{details.reason}: {details.message} {dict(details.metadata)}")
    return told


async def _state(house: Household) -> Mapping[str, str]:
    """All that ann has."""
    found: dict[str, str] = {}
    for method, fields in STATE.items():
        is_agents = Identity.AGENT in CALLERS[method] and method.startswith("executor.")
        channels = house.channels[Identity.AGENT if is_agents else Identity.OPERATOR]
        channel = channels.to(service_of(method))
        called = answers(channel, method, (fields,), house.things, ANN)
        found[method] = "".join([str(answer) async for answer in called])
    return found
