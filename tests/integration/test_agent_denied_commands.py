"""What somebody may not say as a command is not done for them in other words either."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hermes.agent.v1 import approval_pb2, turn_pb2
from hermes.agent.v1.approval_pb2_grpc import ApprovalServiceStub
from hermes.agent.v1.turn_event_pb2 import TurnEvent
from services.ids import new_id
from tests.fakes.model import FakeModel, call, fake_model
from tests.integration.agent_parts import AgentClient, agent, answer
from tests.integration.test_agent_clarifications import asked
from tests.integration.test_agent_web import answers

DONE = {"text": "done"}
WAIT: dict[str, Any] = {**call("todo"), "latency_s": 1.0}
KEEP = call("memory", target="memory", action="add", content="Tea at five.")
SKILL = {"action": "create", "name": "tea", "content": "---"}
REFUSED = "may not use /memory show here"


async def said(client: AgentClient, text: str, *denied: str, **fields: Any) -> list[TurnEvent]:
    """The events of a turn of somebody who may not say some commands."""
    started = await begun(client, text, *denied, **fields)
    return await client.watch(started.turn_id)


async def begun(client: AgentClient, text: str, *denied: str, **fields: Any) -> turn_pb2.Turn:
    request = turn_pb2.StartTurnRequest(
        turn_id=new_id("trn"), session_id="session", denied_commands=denied, **fields
    )
    request.parts.add(text=text)
    request.origin.platform = "telegram"
    return (await client.turns.StartTurn(request)).turn


def results(model: FakeModel) -> list[str]:
    """What tools have said, as the last request shows it."""
    return [m["content"] for m in model.bodies[-1]["messages"] if m["role"] == "tool"]


DENIED: tuple[tuple[str, Mapping[str, Any]], ...] = (
    ("memory show", KEEP),
    ("sessions", call("session_search", query="tea")),
    ("cron list", call("cronjob", action="list")),
    ("cron add", call("cronjob", action="create", schedule="every 2h", prompt="tea")),
    ("cron add", call("cronjob", action="update", job_id="tea", schedule="every 2h")),
    ("cron remove", call("cronjob", action="remove", job_id="tea")),
    ("skills list", call("skills_list")),
    ("skills view", {"tool_calls": [{"name": "skill_view", "arguments": {"name": "tea"}}]}),
    ("skills list", {"tool_calls": [{"name": "skill_manage", "arguments": SKILL}]}),
)


async def test_what_a_command_does_is_not_done_by_a_tool(tmp_path: Path) -> None:
    rules = [{"user": f"row {n}$", "steps": [made, DONE]} for n, (_, made) in enumerate(DENIED)]
    async with fake_model({"rules": rules}) as model, agent(tmp_path, model.url) as client:
        for row, (denied, _) in enumerate(DENIED):
            assert answer(await said(client, f"row {row}", denied, "retry")) == "done"
            assert f"may not use /{denied} here" in results(model)[-1]
            await said(client, f"again row {row}", "retry")
            assert "may not use" not in results(model)[-1]


async def test_an_answer_brings_it_also_where_the_agent_is_another_by_then(
    tmp_path: Path, database_url: str
) -> None:
    script = answers(call("clarify", question="What?"), KEEP, DONE)
    async with fake_model(script) as model:
        async with agent(tmp_path, model.url, HERMES_DATABASE_URL=database_url) as client:
            turn = await begun(client, "go")
            question = await asked(client, turn.turn_id, "What?")
            given = approval_pb2.AnswerClarificationRequest(
                clarification_id=question.clarification_id,
                answer="remember tea",
                answered_by="telegram:8",
                denied_commands=["memory show"],
            )
        async with agent(tmp_path, model.url, HERMES_DATABASE_URL=database_url) as client:
            await ApprovalServiceStub(client.channels.to("agent")).AnswerClarification(given)
            assert answer(await client.watch(turn.turn_id)) == "done"
        assert REFUSED in results(model)[-1]


async def test_what_was_never_answered_is_denied_to_the_next_turn_too(
    tmp_path: Path, database_url: str
) -> None:
    script = {
        "rules": [
            {"user": "remember tea", "steps": [{"text": "slow", "latency_s": 30.0}]},
            {"steps": [KEEP, DONE]},
        ]
    }
    async with fake_model(script) as model:
        async with agent(tmp_path, model.url, HERMES_DATABASE_URL=database_url) as client:
            turn = await begun(client, "remember tea", "memory show")
            await model.until(lambda: len(model.requests) == 1)
            await client.turns.InterruptTurn(turn_pb2.InterruptTurnRequest(turn_id=turn.turn_id))
            await client.watch(turn.turn_id)
        async with agent(tmp_path, model.url, HERMES_DATABASE_URL=database_url) as client:
            await said(client, "go on")
            assert REFUSED in results(model)[-1]
            await said(client, "and now")
            assert REFUSED not in results(model)[-1]


async def test_who_has_it_said_again_says_it_for_whoever_said_it_first(tmp_path: Path) -> None:
    async with fake_model(answers(KEEP, DONE)) as model, agent(tmp_path, model.url) as client:
        await said(client, "remember tea", "memory show")
        assert REFUSED in results(model)[-1]
        await said(client, "/retry", retries=True)
        (again,) = results(model)
        assert REFUSED in again
