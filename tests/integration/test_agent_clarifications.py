"""`clarify` in the real loop: asked, answered once, kept over restarts, given up in time."""

import asyncio
from pathlib import Path

import grpc.aio
import pytest

from hermes.agent.v1 import approval_pb2, turn_pb2
from hermes.agent.v1.approval_pb2_grpc import ApprovalServiceStub
from hermes.agent.v1.turn_event_pb2 import ClarificationRequested
from hermes.common.v1.content_pb2 import MessagePart
from hermes.common.v1.origin_pb2 import TRUST_SERVICE, Origin
from services.errors import Reason, reason_of
from services.rpc.streams import open_stream
from tests.fakes.model import call, fake_model
from tests.integration.agent_parts import AgentClient, agent, answer, kinds, sequences
from tests.integration.test_agent_web import answers

QUESTION = {"question": "Which otter?", "choices": ["The river otter", "The sea otter"]}
SCRIPT = answers(call("clarify", **QUESTION), {"text": "{tool_result}"})


async def asked(
    client: AgentClient, turn_id: str, question: str = "Which otter?"
) -> ClarificationRequested:
    request = turn_pb2.WatchTurnRequest(turn_id=turn_id)
    async with open_stream(client.turns.WatchTurn(request)) as call:
        async for message in call:
            for event in message.events:
                if event.clarification_requested.question == question:
                    return event.clarification_requested
    raise AssertionError(f"{question} was not asked")


async def give(client: AgentClient, text: str, **fields: str) -> str:
    stub = ApprovalServiceStub(client.channels.to("agent"))
    answered = await stub.AnswerClarification(
        approval_pb2.AnswerClarificationRequest(answer=text, answered_by="cli:ada", **fields)
    )
    return answered.clarification_id


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("The one with the shell", "The user answered: The one with the shell"),
        ("2", "The user answered: The sea otter"),
        ("1.", "The user answered: The river otter"),
        ("3", "The user answered: 3"),
    ],
)
async def test_an_answer_is_told_to_the_model(
    tmp_path: Path, database_url: str, text: str, told: str
) -> None:
    async with (
        fake_model(SCRIPT) as model,
        agent(tmp_path, model.url, HERMES_DATABASE_URL=database_url) as client,
    ):
        started = await client.start("draw an otter")
        question = await asked(client, started.turn_id)
        assert question.question == "Which otter?"
        assert list(question.choices) == QUESTION["choices"]
        waiting = await client.turns.GetTurn(turn_pb2.GetTurnRequest(turn_id=started.turn_id))
        assert waiting.turn.state == turn_pb2.TURN_STATE_WAITING_PERSON
        approvals = ApprovalServiceStub(client.channels.to("agent"))
        listed = await approvals.ListApprovals(approval_pb2.ListApprovalsRequest())
        assert not listed.approvals
        await give(client, text, clarification_id=question.clarification_id)
        events = await client.watch(started.turn_id)
    assert answer(events) == told
    assert sequences(events) == list(range(1, len(sequences(events)) + 1))
    (got,) = [e.clarification_answered for e in events if e.HasField("clarification_answered")]
    assert (got.answer, got.answered_by, got.expired) == (text, "cli:ada", False)


async def test_a_question_is_answered_once(tmp_path: Path) -> None:
    script = answers(call("clarify", **QUESTION), call("clarify", question="Sure?"), {"text": "ok"})
    async with fake_model(script) as model, agent(tmp_path, model.url) as client:
        started = await client.start("draw")
        first = (await asked(client, started.turn_id)).clarification_id
        by_session = {"session_id": "session", "answer_id": "telegram:1"}
        assert await give(client, "one", **by_session) == first
        again = (await asked(client, started.turn_id, "Sure?")).clarification_id
        assert await give(client, "one", **by_session) == first
        assert await give(client, "one", clarification_id=first) == first
        with pytest.raises(grpc.aio.AioRpcError) as other:
            await give(client, "two", clarification_id=first)
        assert await give(client, "yes", session_id="session", answer_id="telegram:2") == again
        events = await client.watch(started.turn_id)
        with pytest.raises(grpc.aio.AioRpcError) as nothing:
            await give(client, "three", session_id="session", answer_id="telegram:3")
    assert reason_of(other.value) is Reason.FAILED_PRECONDITION
    assert reason_of(nothing.value) is Reason.NOT_FOUND
    assert kinds(events).count("clarification_answered") == 2


async def test_a_question_and_its_answer_outlive_restarts(tmp_path: Path) -> None:
    async with fake_model(SCRIPT) as model:
        async with agent(tmp_path, model.url) as client:
            started = await client.start("draw")
            question = await asked(client, started.turn_id)
        async with agent(tmp_path, model.url) as client:
            await give(client, "2", clarification_id=question.clarification_id)
            assert answer(await client.watch(started.turn_id)).endswith("The sea otter")
        assert len(model.requests) == 2


async def test_nobody_answers_in_time(tmp_path: Path) -> None:
    config = "approvals: {timeout: 1}\n"
    await asyncio.to_thread((tmp_path / "config.yaml").write_text, config)
    async with fake_model(SCRIPT) as model, agent(tmp_path, model.url) as client:
        events = await client.ask("draw")
    (told,) = [e.clarification_answered for e in events if e.HasField("clarification_answered")]
    assert told.expired
    assert "Nobody answered in time" in answer(events)


async def test_a_program_is_not_asked(tmp_path: Path) -> None:
    async with fake_model(SCRIPT) as model, agent(tmp_path, model.url) as client:
        origin = Origin(platform="scheduler", trust=TRUST_SERVICE)
        started = await client.start("draw", origin=origin)
        events = await client.watch(started.turn_id)
    assert "Nobody can answer" in answer(events)
    assert "clarification_requested" not in kinds(events)


async def test_a_run_of_a_job_asks_nobody_unless_it_asks_for_that(tmp_path: Path) -> None:
    async with fake_model(SCRIPT) as model, agent(tmp_path, model.url) as client:
        for number, toolsets in enumerate([(), ("clarify", "memory")]):
            request = turn_pb2.StartTurnRequest(
                turn_id=f"run{number}",
                session_id=f"run{number}",
                parts=[MessagePart(text="hello")],
                origin=Origin(platform="cli"),
                kind=turn_pb2.TURN_KIND_JOB,
                toolsets=toolsets,
            )
            await client.turns.StartTurn(request)
            await client.watch(f"run{number}")
        offered = [{tool["function"]["name"] for tool in body["tools"]} for body in model.bodies]
    assert not offered[0] & {"clarify", "send_message", "cronjob"}
    assert offered[0] >= {"terminal", "memory", "todo"}
    assert "clarify" in offered[-1]


@pytest.mark.parametrize(
    ("text", "fields"),
    [(" ", {"session_id": "s"}), ("x" * 100_001, {"session_id": "s"}), ("a", {})],
)
async def test_what_is_no_answer_is_refused(
    tmp_path: Path, text: str, fields: dict[str, str]
) -> None:
    async with fake_model(SCRIPT) as model, agent(tmp_path, model.url) as client:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await give(client, text, **fields)
    assert reason_of(refused.value) is Reason.INVALID_ARGUMENT
