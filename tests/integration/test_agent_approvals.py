"""Approvals of a real agent service: asked, decided once, kept over restarts, expired."""

import logging
from datetime import UTC, datetime
from pathlib import Path

import grpc.aio
import pytest
import sqlalchemy as sa

from agent_service.storage import approvals
from agent_service.storage.schema import metadata
from hermes.agent.v1 import approval_pb2, session_pb2, turn_event_pb2, turn_pb2
from hermes.agent.v1.approval_pb2_grpc import ApprovalServiceStub
from hermes.agent.v1.session_pb2_grpc import SessionServiceStub
from hermes.common.v1 import error_pb2
from hermes.common.v1.approval_pb2 import (
    UNATTENDED_POLICY_DENY,
    UNATTENDED_POLICY_HALT,
    UNATTENDED_POLICY_UNSPECIFIED,
    UNATTENDED_POLICY_WAIT,
    UnattendedPolicy,
)
from hermes.common.v1.content_pb2 import MessagePart
from hermes.common.v1.origin_pb2 import Origin
from services.errors import Reason, reason_of
from services.ids import new_id
from services.rpc.streams import open_stream
from tests.fakes.model import fake_model
from tests.integration.agent_parts import AgentClient, agent, answer, kinds, sequences

SCRIPT = {
    "rules": [
        {
            "steps": [
                {"tool_calls": [{"name": "terminal", "arguments": {"command": "rm -rf x"}}]},
                {"text": "{tool_result}"},
            ]
        }
    ]
}


@pytest.fixture
def home(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A home in which every command is asked for, with a minute to answer or `param` seconds."""
    timeout_s = getattr(request, "param", 60)
    config = f"approvals: {{mode: manual, timeout: {timeout_s}}}\n"
    (tmp_path / "config.yaml").write_text(config)
    return tmp_path


async def resolve(
    client: AgentClient, approval_id: str, decision: turn_event_pb2.ApprovalDecision.ValueType
) -> approval_pb2.Approval:
    answered = await ApprovalServiceStub(client.channels.to("agent")).ResolveApproval(
        approval_pb2.ResolveApprovalRequest(
            approval_id=approval_id, decision=decision, decided_by="cli:ada"
        )
    )
    return answered.approval


async def asked(client: AgentClient, turn_id: str) -> turn_event_pb2.ApprovalRequested:
    return (await client.until(turn_id, "approval_requested")).approval_requested


async def test_a_denied_command_does_not_run_and_the_model_is_told(
    home: Path, database_url: str
) -> None:
    async with (
        fake_model(SCRIPT) as model,
        agent(home, model.url, HERMES_DATABASE_URL=database_url) as client,
    ):
        started = await client.start("clean up", origin=Origin(platform="telegram", user_id="47"))
        question = await asked(client, started.turn_id)
        assert (question.tool, question.subject) == ("terminal", "rm -rf x")
        stub = ApprovalServiceStub(client.channels.to("agent"))
        (listed,) = (await stub.ListApprovals(approval_pb2.ListApprovalsRequest())).approvals
        assert (listed.platform, listed.requester) == ("telegram", "47")
        waiting = await client.turns.GetTurn(turn_pb2.GetTurnRequest(turn_id=started.turn_id))
        assert waiting.turn.state == turn_pb2.TURN_STATE_WAITING_PERSON
        await resolve(client, question.approval_id, turn_event_pb2.APPROVAL_DECISION_DENY)
        events = await client.watch(started.turn_id)
    assert "approval_resolved" in kinds(events)
    assert sequences(events) == list(range(1, len(sequences(events)) + 1))
    assert "denied" in answer(events)


def test_an_approval_whose_session_is_gone_meanwhile_does_not_expire() -> None:
    with sa.create_engine("sqlite://").begin() as conn:
        metadata.create_all(conn)
        assert not approvals.expire(conn, "apr_gone", datetime(2026, 1, 1, tzinfo=UTC))


async def test_what_a_turn_used_before_it_waited_counts_once_for_its_session(home: Path) -> None:
    told = {"usage": {"prompt_tokens": 900, "completion_tokens": 100}}
    script = {"rules": [{"steps": [step | told for step in SCRIPT["rules"][0]["steps"]]}]}
    async with fake_model(script) as model, agent(home, model.url) as client:
        started = await client.start("clean up")
        question = await asked(client, started.turn_id)
        await resolve(client, question.approval_id, turn_event_pb2.APPROVAL_DECISION_DENY)
        events = await client.watch(started.turn_id)
        sessions = SessionServiceStub(client.channels.to("agent"))
        request = session_pb2.GetSessionRequest(session_id=started.session_id)
        session = (await sessions.GetSession(request)).session
    assert session.usage == events[-1].turn_finished.usage
    assert (session.usage.prompt_tokens, session.usage.call_count) == (1800, 2)


async def test_who_watched_the_turn_wait_sees_it_live_again(home: Path) -> None:
    told = {"text": "one word after another", "chunk_chars": 4, "chunk_delay_s": 0.01}
    script = {"rules": [{"steps": [SCRIPT["rules"][0]["steps"][0], told]}]}
    async with fake_model(script) as model, agent(home, model.url) as client:
        started = await client.start("clean up")
        request = turn_pb2.WatchTurnRequest(turn_id=started.turn_id)
        said = ""
        async with open_stream(client.turns.WatchTurn(request)) as call:
            async for message in call:
                said += "".join(event.text_delta.text for event in message.events)
                if approval_id := message.events[-1].approval_requested.approval_id:
                    await resolve(client, approval_id, turn_event_pb2.APPROVAL_DECISION_DENY)
    assert said == told["text"]


async def test_an_approval_is_decided_once(home: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with fake_model(SCRIPT) as model, agent(home, model.url) as client:
        started = await client.start("clean up")
        question = await asked(client, started.turn_id)
        for _ in range(2):
            decided = await resolve(
                client, question.approval_id, turn_event_pb2.APPROVAL_DECISION_DENY
            )
            assert decided.decided_by == "cli:ada"
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await resolve(client, question.approval_id, turn_event_pb2.APPROVAL_DECISION_ONCE)
        events = await client.watch(started.turn_id)
    assert reason_of(refused.value) is Reason.FAILED_PRECONDITION
    assert kinds(events).count("approval_resolved") == 1
    noted = [vars(each) for each in caplog.records if "audit" in vars(each)]
    (decision,) = [each for each in noted if each["audit"] == "approval_decided"]
    assert (decision["decision"], decision["decided_by"]) == ("deny", "cli:ada")
    assert decision["approval_id"] == question.approval_id


@pytest.mark.parametrize("home", [1], indirect=True)
async def test_nobody_answers_in_time(home: Path) -> None:
    async with fake_model(SCRIPT) as model, agent(home, model.url) as client:
        events = await client.ask("clean up")
    resolved = [event.approval_resolved for event in events if event.HasField("approval_resolved")]
    assert [r.decision for r in resolved] == [turn_event_pb2.APPROVAL_DECISION_EXPIRED]
    assert "approved this call in time" in answer(events)


async def test_a_turn_that_waits_for_a_person_can_be_interrupted(home: Path) -> None:
    async with fake_model(SCRIPT) as model, agent(home, model.url) as client:
        started = await client.start("clean up")
        await asked(client, started.turn_id)
        request = turn_pb2.InterruptTurnRequest(turn_id=started.turn_id)
        await client.turns.InterruptTurn(request)
        events = await client.watch(started.turn_id)
    assert events[-1].turn_finished.HasField("cancelled")
    assert sequences(events) == list(range(1, len(sequences(events)) + 1))


def commands(*typed: str) -> dict[str, list[dict[str, object]]]:
    """A model that has these commands run, one after the other, and tells the last result."""
    calls = [{"tool_calls": [{"name": "terminal", "arguments": {"command": c}}]} for c in typed]
    return {"rules": [{"steps": [*calls, {"text": "{tool_result}"}]}]}


@pytest.fixture
def smart(tmp_path: Path) -> Path:
    """A home in which a model is asked first."""
    config = "approvals: {mode: smart}\nauxiliary: {approval: {model: judge}}\n"
    (tmp_path / "config.yaml").write_text(config)
    return tmp_path


@pytest.mark.parametrize(("opinion", "asks"), [("HARMLESS", False), ("ASK", True)])
async def test_a_model_is_asked_before_a_person(
    smart: Path, database_url: str, opinion: str, asks: bool
) -> None:
    judging = {"user": "^Found: ", "steps": [{"text": opinion}]}
    script = {"rules": [judging, *SCRIPT["rules"]]}
    async with (
        fake_model(script) as model,
        agent(smart, model.url, HERMES_DATABASE_URL=database_url) as client,
    ):
        started = await client.start("clean up")
        if asks:
            assert (await asked(client, started.turn_id)).subject == "rm -rf x"
        else:
            events = await client.watch(started.turn_id)
            assert "approval_requested" not in kinds(events)
        (judged,) = [body for body in model.bodies if body["model"] == "judge"]
    assert "rm -rf x" in judged["messages"][-1]["content"]


async def test_a_job_does_what_needs_nobody_and_is_told_of_the_rest(
    tmp_path: Path, database_url: str
) -> None:
    async with (
        fake_model(SCRIPT) as model,
        agent(tmp_path, model.url, HERMES_DATABASE_URL=database_url) as client,
    ):
        started = await client.start("clean up", kind=turn_pb2.TURN_KIND_JOB)
        events = await client.watch(started.turn_id)
    assert "approval_requested" not in kinds(events)
    assert "nobody can be asked here" in answer(events)


async def job(client: AgentClient, policy: UnattendedPolicy.ValueType) -> turn_pb2.Turn:
    answered = await client.turns.StartTurn(
        turn_pb2.StartTurnRequest(
            turn_id=new_id("trn"),
            session_id="session",
            parts=[MessagePart(text="tidy")],
            origin=Origin(platform="cli"),
            kind=turn_pb2.TURN_KIND_JOB,
            unattended=policy,
        )
    )
    return answered.turn


@pytest.mark.parametrize(
    ("policy", "message_kind"),
    [
        (UNATTENDED_POLICY_UNSPECIFIED, "completed"),
        (UNATTENDED_POLICY_DENY, "completed"),
        (UNATTENDED_POLICY_HALT, "failed"),
    ],
)
async def test_a_job_does_not_run_what_nobody_can_allow(
    tmp_path: Path, policy: UnattendedPolicy.ValueType, message_kind: str
) -> None:
    script = {"rules": [{"user": "and now", "steps": [{"text": "all well"}]}, *SCRIPT["rules"]]}
    async with fake_model(script) as model, agent(tmp_path, model.url) as client:
        turn = await job(client, policy)
        events = await client.watch(turn.turn_id)
        ended = events[-1].turn_finished
        assert ended.WhichOneof("outcome") == message_kind
        assert "approval_requested" not in kinds(events)
        (returned,) = (e.tool_finished for e in events if e.WhichOneof("kind") == "tool_finished")
        assert returned.is_error
        assert len(model.requests) == (1 if message_kind == "failed" else 2)
        if message_kind == "failed":
            assert ended.failed.failure.reason == error_pb2.ERROR_REASON_APPROVAL_REQUIRED
            assert "terminal: rm -rf x" in ended.failed.failure.message
            assert answer(await client.ask("and now?")) == "all well"
        else:
            assert "nobody can be asked here" in answer(events)


async def test_a_job_may_wait_for_somebody(tmp_path: Path) -> None:
    async with fake_model(SCRIPT) as model, agent(tmp_path, model.url) as client:
        turn = await job(client, UNATTENDED_POLICY_WAIT)
        wanted = await asked(client, turn.turn_id)
        await resolve(client, wanted.approval_id, turn_event_pb2.APPROVAL_DECISION_DENY)
        assert "The user denied this call" in answer(await client.watch(turn.turn_id))
