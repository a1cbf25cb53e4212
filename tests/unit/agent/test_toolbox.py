"""How the calls of one message are run: side by side, in order where they conflict, never twice."""

import asyncio
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pydantic import Field

from agent_service.records.calls import Decided, PendingCall, StepState
from agent_service.records.commands import ApprovalNeeded, Fact, ToolDispatched, ToolReturned
from agent_service.records.events import Decision
from agent_service.records.model import ToolCall
from agent_service.records.requests import TurnOptions, TurnRequest
from agent_service.records.sandbox import NOWHERE, SandboxInfo
from agent_service.records.turn_state import LiveTurn
from agent_service.records.usage import Usage
from agent_service.tools.base import (
    Effect,
    ToolArguments,
    ToolContext,
    ToolFailed,
    ToolResult,
    UsualTool,
)
from agent_service.tools.guards.approval import binding_of, check_allowed
from agent_service.tools.skills import (
    SkillManage,
    SkillManageArguments,
    SkillView,
    SkillViewArguments,
)
from agent_service.tools.toolbox import MAX_PARALLEL_CALLS, Toolbox
from services.database.leases import Lease
from services.errors import DatabaseUnavailable
from services.redaction.redactor import Redactor
from tests.unit.agent.test_judged import Records


class SampleArguments(ToolArguments):
    """Does something with a thing."""

    thing: str = Field(description="The thing.")
    seconds: float = Field(default=0.0, description="How long it takes.")


@dataclass(slots=True)
class Sample(UsualTool[SampleArguments]):
    """A tool that remembers what it did."""

    name: str = "sample"
    toolset: str = "samples"
    kind: Effect = Effect.PURE
    log: list[str] = field(default_factory=list[str])
    running: int = 0
    most: int = 0
    arguments = SampleArguments

    def effect(self, arguments: SampleArguments) -> Effect:
        return self.kind

    def writes(self, arguments: SampleArguments) -> frozenset[str]:
        return frozenset() if arguments.thing == "free" else frozenset({arguments.thing})

    async def run(self, arguments: SampleArguments, context: ToolContext) -> ToolResult:
        """Take the time, and fail as the thing's name says."""
        self.running += 1
        self.most = max(self.most, self.running)
        self.log.append(f"begin {context.key}")
        await asyncio.sleep(arguments.seconds)
        self.log.append(f"end {context.key}")
        self.running -= 1
        if arguments.thing == "broken":
            raise ToolFailed("the thing is broken")
        if arguments.thing == "crash":
            raise KeyError("a bug")
        if arguments.thing == "unsaved":
            raise DatabaseUnavailable("the disk is full")
        return ToolResult(f"did {arguments.thing}")


class Asking(Sample):
    """The same where a person is asked first."""

    async def run(self, arguments: SampleArguments, context: ToolContext) -> ToolResult:
        await check_allowed(self.name, arguments.thing, binding_of(arguments), context)
        return await super().run(arguments, context)


def turn(*calls: tuple[str, str], state: StepState = StepState.INTENT) -> LiveTurn:
    """A turn whose model has asked for these calls, each a tool's name and arguments."""
    live = LiveTurn(
        request=TurnRequest(
            *("trn_1", "default", "s", "", {"platform": "cli"}, "user"),
            options=TurnOptions("m", max_model_calls=9),
        ),
        platform="cli",
        lease=Lease("trn_1", "me", 1, datetime(2026, 1, 1, tzinfo=UTC)),
        max_tokens=100,
        messages=[],
        message_count=0,
        sequence=0,
        steps=0,
        started_at=datetime(2026, 1, 1, tzinfo=UTC),
        approval_timeout=timedelta(seconds=9),
        session_usage=Usage(),
    )
    for number, (name, arguments) in enumerate(calls, 1):
        key = str(number)
        call = ToolCall(f"call_{number}", name, arguments)
        live.pending[key] = PendingCall(key, call, number, number, state)
    return live


def toolbox(
    tool: Sample, place: SandboxInfo = NOWHERE, redactor: Redactor | None = None
) -> Toolbox:
    """A toolbox with one tool, which needs nothing of its context but the key."""

    def context(live: LiveTurn, call: PendingCall, progress: object) -> ToolContext:
        decided = live.decided.get(call.key, Decided())
        unused: Any = None
        return ToolContext(
            call.key,
            commands=unused,
            files=unused,
            state=unused,
            records=Records(),
            sandbox=unused,
            decision=decided.decision,
            progress=print,
            place=lambda: place,
            decided_on=decided.binding,
        )

    return Toolbox([tool], context, redactor)


async def facts(box: Toolbox, live: LiveTurn) -> list[Fact]:
    found: list[Fact] = []
    async with aclosing(box.run(live)) as outcomes:
        async for outcome in outcomes:
            assert isinstance(outcome, tuple)
            found += outcome
    return found


async def test_what_calls_say_has_no_known_secrets() -> None:
    box = toolbox(Sample(), redactor=Redactor(["hunter2hunter2"]))
    (fact,) = await facts(box, turn(("sample", '{"thing": "hunter2hunter2"}')))
    assert isinstance(fact, ToolReturned)
    assert fact.text == "did [REDACTED]"


async def test_calls_run_side_by_side_but_not_more_than_eight() -> None:
    tool = Sample()
    calls = [("sample", '{"thing": "free", "seconds": 0.02}')] * 20
    found = await facts(toolbox(tool), turn(*calls))
    assert len(found) == 20
    assert tool.most == MAX_PARALLEL_CALLS


async def test_calls_that_change_the_same_thing_run_in_the_order_of_the_message() -> None:
    tool = Sample()
    calls = [("sample", f'{{"thing": "x", "seconds": {s}}}') for s in (0.03, 0.01, 0.0)]
    await facts(toolbox(tool), turn(*calls))
    assert tool.log == [f"{what} {key}" for key in "123" for what in ("begin", "end")]


@pytest.mark.parametrize(
    ("name", "arguments", "told"),
    [
        ("sample", "{", "not a JSON object"),
        ("sample", "[]", "arguments"),
        ("sample", '{"thing": "\\ud800"}', "half of a surrogate pair"),
        ("sample", '{"\\udc00": "x"}', "half of a surrogate pair"),
        ("sample", "{}", "thing: Field required"),
        ("sample", '{"thing": "x", "extra": 1}', "extra"),
        ("nothing", "{}", "There is no tool 'nothing'. Available tools: sample."),
        ("sample", '{"thing": "broken"}', "the thing is broken"),
        ("sample", '{"thing": "crash"}', "crashed"),
    ],
)
async def test_what_goes_wrong_is_a_result_that_the_model_reads(
    name: str, arguments: str, told: str
) -> None:
    (fact,) = await facts(toolbox(Sample()), turn((name, arguments)))
    assert isinstance(fact, ToolReturned)
    assert fact.is_error
    assert told in fact.text


async def test_a_database_that_is_away_is_no_result() -> None:
    tool = Sample()
    live = turn(("sample", '{"thing": "unsaved"}'), ("sample", '{"thing": "x"}'))
    with pytest.raises(DatabaseUnavailable):
        await facts(toolbox(tool), live)
    assert "end 2" in tool.log, "the call beside it comes to its end"


@pytest.mark.parametrize("thing", ["x", "broken", "crash"])
async def test_a_result_from_where_nothing_is_isolated_says_so(thing: str) -> None:
    call = ("sample", f'{{"thing": "{thing}"}}')
    (confined,) = await facts(
        toolbox(Sample(), SandboxInfo("docker", "namespace", "sbx_1")), turn(call)
    )
    (fact,) = await facts(toolbox(Sample(), SandboxInfo("local", "none", "sbx_1")), turn(call))
    assert isinstance(fact, ToolReturned)
    assert isinstance(confined, ToolReturned)
    note = "[local is no sandbox: this was done on the machine itself]"
    assert fact.text == f"{confined.text}\n{note}"


async def test_an_unsafe_call_runs_only_once_its_intent_is_committed() -> None:
    tool = Sample(kind=Effect.UNSAFE)
    box = toolbox(tool)
    async with aclosing(box.run(turn(("sample", '{"thing": "x"}')))) as outcomes:
        first = await anext(outcomes)
        await asyncio.sleep(0.02)
        assert isinstance(first, tuple)
        assert isinstance(first[0], ToolDispatched)
        assert tool.log == []
        await anext(outcomes)
    assert tool.log == ["begin 1", "end 1"]


async def test_an_unsafe_call_that_may_have_run_is_not_run_again() -> None:
    tool = Sample(kind=Effect.UNSAFE)
    live = turn(("sample", '{"thing": "x"}'), state=StepState.DISPATCHED)
    (fact,) = await facts(toolbox(tool), live)
    assert isinstance(fact, ToolReturned)
    assert fact.uncertain
    assert tool.log == []


async def test_a_person_is_asked_before_and_nothing_runs_meanwhile() -> None:
    tool = Asking()
    live = turn(("sample", '{"thing": "x"}'), ("sample", '{"thing": "y"}'))
    live.decided["1"] = Decided(Decision.ONCE, binding_of(SampleArguments(thing="x")))
    found = await facts(toolbox(tool), live)
    assert [type(fact) for fact in found] == [ToolReturned, ApprovalNeeded]
    assert isinstance(found[1], ApprovalNeeded)
    assert found[1].subject == "y"
    assert tool.log == ["begin 1", "end 1"]


async def test_a_question_shows_no_secret() -> None:
    box = toolbox(Asking(), redactor=Redactor(["hunter2hunter2"]))
    (fact,) = await facts(box, turn(("sample", '{"thing": "say hunter2hunter2"}')))
    assert isinstance(fact, ApprovalNeeded)
    assert fact.subject == "say [REDACTED]"


async def test_leaving_early_ends_the_calls() -> None:
    tool = Sample()
    box = toolbox(tool)
    live = turn(("sample", '{"thing": "a"}'), ("sample", '{"thing": "b", "seconds": 60}'))
    async with aclosing(box.run(live)) as outcomes:
        await anext(outcomes)
    assert "end 2" not in tool.log


def test_a_skill_is_read_before_or_after_a_change_of_the_same_message() -> None:
    reading = SkillView().writes(SkillViewArguments(name="a"))
    changing = SkillManage().writes(SkillManageArguments(action="archive", name="a"))
    assert reading & changing
