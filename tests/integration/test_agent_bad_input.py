"""What models say that makes no sense: each has a defined outcome, and the next turn works."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from agent_service.records.arguments import is_object
from agent_service.records.turn_state import STOP_AT
from agent_service.tools.advice import WARN_AT
from agent_service.turns.continuation import GO_ON, MAX_CONTINUATIONS
from hermes.agent.v1 import turn_pb2
from hermes.agent.v1.turn_event_pb2 import TurnEvent
from hermes.common.v1.error_pb2 import ErrorReason
from services.errors import Reason
from services.ids import new_id
from tests.fakes.model import FakeModel, fake_model
from tests.integration.agent_parts import AgentClient, agent, answer, kinds

CUT = "length"


def _todo(text: Any) -> dict[str, Any]:
    return {"tool_calls": [{"name": "todo", "arguments": text}]}


WRONG = _todo({"todos": [{"id": "1"}]})
PLAN = _todo({"todos": [{"id": "1", "content": "look"}]})
WELL = {"text": "well"}


@pytest.fixture
def impatient(tmp_path: Path) -> Path:
    """A home whose agent asks a model only once more."""
    (tmp_path / "config.yaml").write_text("agent: {api_max_retries: 1}\n")
    return tmp_path


def _results(model: FakeModel) -> list[str]:
    messages = model.bodies[-1]["messages"]
    return [message["content"] for message in messages if message["role"] == "tool"]


async def _still_works(client: AgentClient) -> None:
    assert answer(await client.ask("and now")) == "well"


def _scripted(*steps: Any) -> dict[str, Any]:
    return {"rules": [{"user": "and now", "steps": [WELL]}, {"steps": list(steps)}]}


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ('{"todos": [', "not a JSON object"),
        ("[1, 2]", "The arguments are invalid"),
        ("[" * 100_000, "not a JSON object"),
        ('{"todos": [{"id": "1", "content": "\\ud800"}]}', "half of a surrogate pair"),
        ({"todos": "all", "more": 1}, "todos"),
    ],
    ids=["cut off", "no object", "deep", "half a character", "wrong types"],
)
async def test_malformed_arguments_are_told_and_the_tool_is_not_run(
    tmp_path: Path, arguments: Any, told: str
) -> None:
    script = _scripted(_todo(arguments), WELL)
    async with fake_model(script) as model, agent(tmp_path, model.url) as client:
        events = await client.ask("plan it")
        (result,) = _results(model)
        await _still_works(client)
        sent_back = [m for m in model.bodies[-1]["messages"] if m.get("tool_calls")]
    assert answer(events) == "well"
    assert told in result
    (call,) = sent_back[0]["tool_calls"]
    assert is_object(call["function"]["arguments"]), "strict endpoints refuse anything else"
    (finished,) = (e.tool_finished for e in events if e.WhichOneof("kind") == "tool_finished")
    assert finished.is_error


async def test_a_call_that_fails_again_and_again_is_warned_of_and_ends_the_turn(
    tmp_path: Path,
) -> None:
    script = _scripted(*[WRONG] * 20)
    async with fake_model(script) as model, agent(tmp_path, model.url) as client:
        events = await client.ask("plan it")
        seen = _results(model)
        assert len(model.requests) == STOP_AT
        await _still_works(client)
    assert [number >= WARN_AT for number in range(1, STOP_AT)] == [
        "failed in the same way" in result for result in seen
    ]
    limit = events[-1].turn_finished.limit_reached
    assert f"the same call {STOP_AT} times" in limit.message


async def _limited(client: AgentClient, most: int) -> Sequence[TurnEvent]:
    request = turn_pb2.StartTurnRequest(
        turn_id=new_id("trn"), session_id="session", max_model_calls=most
    )
    request.parts.add(text="plan it")
    request.origin.platform = "cli"
    started = await client.turns.StartTurn(request)
    return await client.watch(started.turn.turn_id)


async def test_a_model_that_loops_is_told_to_come_to_an_end_and_stopped(tmp_path: Path) -> None:
    script = _scripted(*[{"tool_calls": PLAN["tool_calls"] * 2}] * 99)
    async with fake_model(script) as model, agent(tmp_path, model.url) as client:
        events = await _limited(client, 30)
        assert len(model.requests) == 30
        await _still_works(client)
        results = _results(model)
    assert events[-1].turn_finished.limit_reached.message.startswith("The turn made 30 model calls")
    hints = [index for index, result in enumerate(results) if "model calls left" in result]
    last = [index for index, result in enumerate(results) if "one model call left" in result]
    # The second result of the last messages but one, which are the calls 27 to 29.
    assert hints == [53, 55]
    assert last == [57]


async def test_an_empty_answer_is_asked_for_again(tmp_path: Path) -> None:
    async with (
        fake_model({"rules": [{"steps": [[{"text": ""}, WELL]]}]}) as model,
        agent(tmp_path, model.url) as client,
    ):
        assert answer(await client.ask("hi")) == "well"
        assert len(model.requests) == 2


async def test_a_model_that_always_answers_nothing_ends_the_turn_with_a_reason(
    impatient: Path,
) -> None:
    async with fake_model(_scripted({"text": ""})) as model, agent(impatient, model.url) as client:
        events = await client.ask("hi")
        await _still_works(client)
    failure = events[-1].turn_finished.failed.failure
    assert ErrorReason.Name(failure.reason) == f"ERROR_REASON_{Reason.MODEL_UNAVAILABLE}"
    assert failure.cause == "empty"
    assert "answered nothing" in failure.message


async def test_a_request_that_is_rejected_has_another_reason_than_a_server_that_fails(
    tmp_path: Path,
) -> None:
    """Else a batch would wait for a provider that is there."""
    async with (
        fake_model(_scripted({"status": 400, "error": {"error": {"message": "no"}}})) as model,
        agent(tmp_path, model.url) as client,
    ):
        events = await client.ask("hi")
    failure = events[-1].turn_finished.failed.failure
    assert ErrorReason.Name(failure.reason) == f"ERROR_REASON_{Reason.MODEL_BAD_RESPONSE}"


def _pieces(*steps: dict[str, Any]) -> dict[str, Any]:
    """A model that is asked to go on, as a script sees it: each time by a new user's message."""
    first, *rest = steps
    return {
        "rules": [
            {"user": "and now", "steps": [WELL]},
            {"user": "cut off", "steps": [list(rest)]},
            {"steps": [first]},
        ]
    }


async def test_an_answer_that_is_cut_off_is_gone_on_with(tmp_path: Path) -> None:
    script = _pieces(
        {"text": "once upon ", "finish_reason": CUT},
        {"text": "a time", "finish_reason": CUT},
        {"text": " it ended"},
    )
    async with fake_model(script) as model, agent(tmp_path, model.url) as client:
        events = await client.ask("tell me")
        bodies = model.bodies
        await _still_works(client)
    assert answer(events) == "once upon a time it ended"
    assert kinds(events).count("text_finished") == 3
    assert [message["content"] for message in bodies[-1]["messages"][1:]] == [
        "tell me",
        "once upon ",
        GO_ON,
        "a time",
        GO_ON,
    ]


async def test_an_answer_without_end_is_cut_off_and_said_to_be(tmp_path: Path) -> None:
    more = {"text": "more ", "finish_reason": CUT}
    async with fake_model(_pieces(more, more)) as model, agent(tmp_path, model.url) as client:
        events = await client.ask("tell me")
        assert len(model.requests) == MAX_CONTINUATIONS + 1
        await _still_works(client)
    limit = events[-1].turn_finished.limit_reached
    assert limit.partial_answer == "more " * (MAX_CONTINUATIONS + 1)
    assert "cut off" in limit.message


async def test_a_call_that_is_cut_off_is_not_run(tmp_path: Path) -> None:
    cut = {**_todo(json.dumps({"todos": [{"id": "1", "content": "x" * 99}]})[:50])}
    script = _scripted({**cut, "finish_reason": CUT}, WELL)
    async with fake_model(script) as model, agent(tmp_path, model.url) as client:
        assert answer(await client.ask("plan it")) == "well"
        (result,) = _results(model)
    assert "was not run. If your message was cut off, make several smaller calls" in result
