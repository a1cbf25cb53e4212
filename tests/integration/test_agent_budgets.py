"""Budgets of a running agent: reserved before each call, booked with its answer, and hard."""

import asyncio
import itertools
from collections.abc import Sequence
from pathlib import Path

import pytest

from hermes.agent.v1 import session_pb2, turn_pb2
from hermes.agent.v1 import usage_pb2 as pb
from hermes.agent.v1.session_pb2_grpc import SessionServiceStub
from hermes.agent.v1.turn_event_pb2 import TurnEvent
from hermes.agent.v1.usage_pb2_grpc import UsageServiceStub
from services.errors import Reason
from tests.fakes.model import answers, fake_model
from tests.integration.agent_parts import AgentClient, agent, answer, kinds
from tests.support.executors import refused

TOLD = {"prompt_tokens": 900, "completion_tokens": 100, "cost": 0.01}
PLAN = {"name": "todo", "arguments": {"todos": [{"id": "1", "content": "look"}]}}
HI = {"text": "Hi.", "usage": TOLD}
DAY, SESSION = pb.BUDGET_SCOPE_DAY, pb.BUDGET_SCOPE_SESSION
MAX_TOKENS = 500
PRICED = (
    f"model: {{max_tokens: {MAX_TOKENS}}}\n"
    "models: {scripted: {price: {input: 1, output: 100}}}\n"
)
"""So that a call may take 0.05 USD for its answer and little for its prompt."""


async def configure(home: Path, text: str = PRICED) -> None:
    await asyncio.to_thread((home / "config.yaml").write_text, text, "utf-8")


def stub_of(client: AgentClient) -> UsageServiceStub:
    return UsageServiceStub(client.channels.to("agent"))


async def set_budget(
    client: AgentClient, scope: pb.BudgetScope.ValueType, *, usd: float = 0, tokens: int = 0
) -> str:
    """Set it; return the model that it stops because its price is not known."""
    limit = pb.BudgetAmount(micro_usd=round(usd * 1e6), tokens=tokens)
    answer = await stub_of(client).SetBudget(pb.SetBudgetRequest(scope=scope, limit=limit))
    return answer.unpriced_model


def by(url: str) -> dict[str, str]:
    """The variables of a provider that takes money, reached through a gateway."""
    return {"OPENROUTER_BASE_URL": url, "OPENROUTER_API_KEY": "test-key"}


async def standing(client: AgentClient, session_id: str = "") -> pb.Budget:
    answer = await stub_of(client).GetBudget(pb.GetBudgetRequest(session_id=session_id))
    (found,) = answer.budgets
    return found


async def of_job(client: AgentClient) -> pb.Budget:
    found = (await stub_of(client).GetBudget(pb.GetBudgetRequest(job_id="x"))).budgets
    (budget,) = [each for each in found if each.scope_id == "x"]
    return budget


async def interrupt(client: AgentClient, turn_id: str) -> None:
    await client.turns.InterruptTurn(turn_pb2.InterruptTurnRequest(turn_id=turn_id))


async def test_notes_of_a_long_conversation_are_held_to_the_budget(tmp_path: Path) -> None:
    notes = {"user": "The conversation:", "steps": [{"text": "Notes.", "usage": TOLD}]}
    script = {"rules": [notes, {"steps": [HI]}]}
    config = "model: {max_tokens: 500}\nmodels: {scripted: {window: 100000}}\n"
    async with fake_model(script) as model:
        await configure(tmp_path, config)
        async with agent(tmp_path, model.url) as client:
            for _ in range(6):
                await client.ask("word " * 1000)
            await set_budget(client, SESSION, tokens=100)
            before = len(model.bodies)
            turn = await client.start("/compress", kind=turn_pb2.TURN_KIND_COMPRESS)
            assert "100 tokens" in limit_reached(await client.watch(turn.turn_id))
            assert len(model.bodies) == before
            await set_budget(client, SESSION, tokens=100_000)
            turn = await client.start("/compress", kind=turn_pb2.TURN_KIND_COMPRESS)
            finished = (await client.watch(turn.turn_id))[-1].turn_finished
            assert finished.usage.prompt_tokens == 900
            sessions = SessionServiceStub(client.channels.to("agent"))
            asked = session_pb2.GetSessionRequest(session_id="session")
            used = (await sessions.GetSession(asked)).session.usage
            assert (used.prompt_tokens, used.call_count) == (7 * 900, 7)
            left = await stub_of(client).GetBudget(pb.GetBudgetRequest(session_id="session"))
            assert [
                budget.reserved.tokens for budget in left.budgets if budget.reserved.tokens
            ] == []


async def test_answers_that_say_nothing_are_counted_too(tmp_path: Path) -> None:
    nothing = {"text": "", "usage": TOLD}
    await configure(tmp_path)
    async with (
        fake_model({"rules": [{"steps": [[nothing, nothing, HI]]}]}) as model,
        agent(tmp_path, model.url) as client,
    ):
        await set_budget(client, DAY, usd=1)
        events = await client.ask("hi")
        stood = await standing(client)
    assert answer(events) == "Hi."
    used = events[-1].turn_finished.usage
    assert (used.prompt_tokens, used.completion_tokens, used.cost_micro_usd) == (2700, 300, 30_000)
    assert stood.spent.micro_usd == 30_000
    assert not stood.reserved.micro_usd


def limit_reached(events: Sequence[TurnEvent]) -> str:
    return events[-1].turn_finished.limit_reached.message


def notices(events: Sequence[TurnEvent]) -> list[str]:
    return [e.notice.text for e in events if e.WhichOneof("kind") == "notice"]


async def test_a_budget_ends_a_turn_between_two_calls_and_raising_it_lets_the_next_go_on(
    tmp_path: Path, database_url: str
) -> None:
    await configure(tmp_path)
    script = {"rules": [{"user": "plan", "steps": [{"tool_calls": [PLAN], "usage": TOLD}, HI]}]}
    script["rules"].append({"steps": [HI]})
    async with (
        fake_model(script) as model,
        agent(tmp_path, model.url, HERMES_DATABASE_URL=database_url) as client,
    ):
        await set_budget(client, DAY, usd=0.06)
        events = await client.ask("plan it")
        assert len(model.requests) == 1
        stood = await standing(client)
        await set_budget(client, DAY, usd=1)
        after = await client.ask("hi")
    ended = events[-1].turn_finished
    assert ended.WhichOneof("outcome") == "limit_reached"
    assert "Today's budget" in limit_reached(events)
    assert "$0.0100 of $0.0600 spent" in limit_reached(events)
    assert "hermes budget set day" in limit_reached(events)
    assert kinds(events)[-2:] == ["tool_finished", "turn_finished"]
    assert (ended.usage.call_count, ended.usage.cost_micro_usd) == (1, 10_000)
    assert (stood.spent.micro_usd, stood.spent.tokens) == (10_000, 1_000)
    assert (stood.reserved.micro_usd, stood.is_set) == (0, True)
    assert answer(after) == "Hi."


async def test_16_turns_at_once_do_not_overspend(tmp_path: Path, database_url: str) -> None:
    await configure(tmp_path)
    async with (
        fake_model(answers({"text": "Hi.", "hang_after": 0})) as model,
        agent(tmp_path, model.url, HERMES_DATABASE_URL=database_url) as client,
    ):
        # Room for three calls of 0.05 and something.
        await set_budget(client, DAY, usd=0.2)
        turns = await asyncio.gather(
            *(client.start("hi", session_id=f"session-{number}") for number in range(16))
        )
        watching = [asyncio.ensure_future(client.watch(turn.turn_id)) for turn in turns]
        ended = [await done for done in itertools.islice(asyncio.as_completed(watching), 13)]
        await model.until(lambda: len(model.requests) == 3)
        running = await standing(client)
        for turn in turns:
            await interrupt(client, turn.turn_id)
        stopped = await asyncio.gather(*watching)
        stood = await standing(client)
    assert all("Today's budget" in limit_reached(events) for events in ended)
    assert 150_000 < running.reserved.micro_usd <= running.limit.micro_usd
    outcomes = [str(events[-1].turn_finished.WhichOneof("outcome")) for events in stopped]
    assert (outcomes.count("limit_reached"), outcomes.count("cancelled")) == (13, 3)
    assert (len(model.requests), stood.reserved.micro_usd) == (3, 0)


async def test_a_session_has_its_own_budget_in_tokens(tmp_path: Path) -> None:
    await configure(tmp_path, PRICED + "budget: {session: {tokens: 8000}}\n")
    async with fake_model(answers(HI)) as model, agent(tmp_path, model.url) as client:
        outcomes: list[list[str]] = []
        for session_id in ("one", "two"):
            ended = [await client.ask("hi", session_id=session_id) for _ in range(6)]
            outcomes.append([str(e[-1].turn_finished.WhichOneof("outcome")) for e in ended])
        stood = (await stub_of(client).GetBudget(pb.GetBudgetRequest(session_id="one"))).budgets
        each, one = stood
    assert outcomes[0] == outcomes[1]
    made = outcomes[0].count("completed")
    assert outcomes[0] == ["completed"] * made + ["limit_reached"] * (6 - made)
    assert 1 <= made <= 5
    assert (one.scope, one.scope_id, one.spent.tokens) == (SESSION, "one", made * 1_000)
    assert (each.scope_id, each.spent.tokens, each.is_set) == ("", 0, False)


async def test_a_turn_says_once_that_a_budget_is_nearly_used_up(tmp_path: Path) -> None:
    await configure(tmp_path, PRICED + "budget: {warn_percent: 1, day: {usd: 0.9}}\n")
    slow = {**HI, "latency_s": 0.5}
    call = {"tool_calls": [PLAN], "usage": TOLD, "latency_s": 0.5}
    script = {"rules": [{"user": "plan", "steps": [call, call, slow]}, {"steps": [slow]}]}
    async with fake_model(script) as model, agent(tmp_path, model.url) as client:
        first, second = await client.ask("hi"), await client.ask("plan")
    assert notices(first) == []
    assert notices(second) == ["Today's budget is nearly used up: $0.0100 of $0.9000."]
    assert answer(second) == "Hi."


@pytest.mark.parametrize(
    ("price", "is_called"),
    [
        ("", False),
        ("models: {scripted: {price: {input: 0, output: 0}}}\n", True),
        ("budget: {unpriced: free}\n", True),
    ],
    ids=["unknown", "free", "counted as free"],
)
async def test_a_budget_in_dollars_holds_a_model_whose_price_is_not_known(
    tmp_path: Path, price: str, is_called: bool
) -> None:
    await configure(tmp_path, price)
    async with fake_model(answers(HI)) as model, agent(tmp_path, "", **by(model.url)) as client:
        unpriced = await set_budget(client, DAY, usd=1_000)
        assert (unpriced == "scripted") is not is_called
        told = limit_reached(await client.ask("hi"))
        assert len(model.bodies) == is_called
        assert ("price of scripted is not known" in told) is not is_called
        assert not await set_budget(client, DAY, tokens=100_000)
        assert answer(await client.ask("hi")) == "Hi."


async def test_a_model_on_a_server_of_one_s_own_is_free_unless_its_price_is_set(
    tmp_path: Path,
) -> None:
    async with fake_model(answers(HI)) as model, agent(tmp_path, model.url) as client:
        assert not await set_budget(client, DAY, usd=0.01)
        assert answer(await client.ask("hi")) == "Hi."
    await configure(tmp_path, "models: {scripted: {price: {input: 1000, output: 1000}}}\n")
    async with fake_model(answers(HI)) as model, agent(tmp_path, model.url) as client:
        assert "Today's budget" in limit_reached(await client.ask("hi"))


async def test_what_an_interrupted_call_had_reserved_is_free_and_what_it_said_is_booked(
    tmp_path: Path, database_url: str
) -> None:
    await configure(tmp_path)
    said = {"text": "well, " * 50, "hang_after": 1}
    async with (
        fake_model(answers(said, HI)) as model,
        agent(tmp_path, model.url, HERMES_DATABASE_URL=database_url) as client,
    ):
        await set_budget(client, DAY, usd=1)
        turn = await client.start("hi")
        await client.until_it_says_something(turn.turn_id)
        running = await standing(client)
        await interrupt(client, turn.turn_id)
        events = await client.watch(turn.turn_id)
        stood = await standing(client)
    assert running.reserved.micro_usd >= 50_000
    assert running.spent.micro_usd == stood.reserved.micro_usd == 0
    assert stood.spent.micro_usd == events[-1].turn_finished.usage.cost_micro_usd > 0


async def test_what_is_set_is_stronger_than_the_config_until_it_is_unset(tmp_path: Path) -> None:
    await configure(tmp_path, PRICED + "budget: {day: {usd: 0.01}}\n")
    kept: list[int] = []
    async with fake_model(answers(HI)) as model, agent(tmp_path, model.url) as client:
        over = await client.ask("hi")
        await set_budget(client, DAY)
        unlimited = await client.ask("hi")
        await stub_of(client).SetBudget(pb.SetBudgetRequest(scope=DAY))
        again = await client.ask("hi")
        for tokens, keeps_set in ((7, True), (8, True), (9, False), (8, True)):
            asked = pb.SetBudgetRequest(
                scope=pb.BUDGET_SCOPE_JOB,
                scope_id="x",
                limit=pb.BudgetAmount(tokens=tokens),
                keeps_set=keeps_set,
            )
            await stub_of(client).SetBudget(asked)
            kept.append((await of_job(client)).limit.tokens)
    assert kept == [7, 7, 9, 9]
    assert "Today's budget" in limit_reached(over)
    assert answer(unlimited) == "Hi."
    assert "Today's budget" in limit_reached(again)
    assert len(model.requests) == 1


NONSENSE = (
    pb.SetBudgetRequest(),
    pb.SetBudgetRequest(scope=DAY, scope_id="x"),
    pb.SetBudgetRequest(scope=SESSION, scope_id="a b"),
    pb.SetBudgetRequest(scope=DAY, limit=pb.BudgetAmount(tokens=-1)),
    pb.SetBudgetRequest(scope=DAY, limit=pb.BudgetAmount(micro_usd=10**16)),
)


async def test_a_budget_that_makes_no_sense_is_refused(tmp_path: Path) -> None:
    async with agent(tmp_path, "http://127.0.0.1:9/v1") as client:
        for request in NONSENSE:
            assert await refused(stub_of(client).SetBudget(request)) is Reason.INVALID_ARGUMENT
