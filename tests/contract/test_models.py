"""What every implementation of the Model seam makes of an answer, over a real connection."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from agent_service.models.wires.transport import Timeouts
from agent_service.records.events import ReasoningDelta, TextDelta
from agent_service.records.model import (
    ModelMessage,
    ModelRequest,
    ToolCall,
    assistant_message,
    encoded,
)
from agent_service.records.usage import Usage
from tests.contract.models import (
    IMPLEMENTATIONS,
    KEY,
    NO_RETRIES,
    ONLY_CHAT,
    TOOLS,
    Connect,
    answer,
    ask,
    endpoint_at,
    request,
    scripted,
    text_of,
)
from tests.fakes.model import answers, fake_model


@pytest.fixture(params=list(IMPLEMENTATIONS))
def connect(request: pytest.FixtureRequest) -> Connect:
    return IMPLEMENTATIONS[request.param]


async def test_text_comes_in_pieces_and_then_whole(connect: Connect) -> None:
    reply = {"text": "Grüße aus dem Norden ☃", "chunk_chars": 5, "chunk_delay_s": 0.001}
    async with scripted(connect, answers(reply)) as (model, _):
        events = await ask(model)
    *deltas, last = events
    assert isinstance(last, ModelMessage)
    assert all(isinstance(delta, TextDelta) for delta in deltas)
    assert len(deltas) == 5
    assert text_of(events) == last.text == reply["text"]
    assert (last.finish_reason, last.model, last.provider) == ("stop", "scripted", "custom")
    assert last.tool_calls == ()


async def test_a_tool_call_is_put_together_from_its_pieces(connect: Connect) -> None:
    arguments = {"command": "df -h | sort", "timeout": 30}
    reply = {
        "text": "I look.",
        "tool_calls": [{"id": "call_a", "name": "terminal", "arguments": arguments}],
        "chunk_chars": 3,
    }
    async with scripted(connect, answers(reply)) as (model, _):
        message = await answer(model)
    assert message.text == "I look."
    assert message.finish_reason == "tool_calls"
    (call,) = message.tool_calls
    assert (call.id, call.name) == ("call_a", "terminal")
    assert json.loads(call.arguments_json) == arguments


async def test_parallel_tool_calls_keep_their_order(connect: Connect) -> None:
    calls = [{"id": f"c{n}", "name": "terminal", "arguments": f'{{ "n":{n} }}'} for n in range(4)]
    async with scripted(connect, answers({"tool_calls": calls, "chunk_chars": 2})) as (model, _):
        message = await answer(model)
    assert message.tool_calls == tuple(
        ToolCall(f"c{n}", "terminal", f'{{ "n":{n} }}') for n in range(4)
    )


async def test_malformed_arguments_are_handed_on_as_they_are(connect: Connect) -> None:
    reply = {"tool_calls": [{"id": "c", "name": "terminal", "arguments": '{"command": "ls'}]}
    async with scripted(connect, answers(reply)) as (model, _):
        message = await answer(model)
    assert message.tool_calls == (ToolCall("c", "terminal", '{"command": "ls'),)


@ONLY_CHAT
@pytest.mark.parametrize("field", ["reasoning", "reasoning_content", "reasoning_details"])
async def test_reasoning_is_read_wherever_it_stands(connect: Connect, field: str) -> None:
    reply = {"text": "42", "reasoning": "Six by seven.", "reasoning_field": field, "chunk_chars": 4}
    async with scripted(connect, answers(reply)) as (model, _):
        events = await ask(model)
    shown = "".join(event.text for event in events if isinstance(event, ReasoningDelta))
    message = events[-1]
    assert isinstance(message, ModelMessage)
    assert shown == message.reasoning == "Six by seven."
    assert message.text == "42"


@ONLY_CHAT
async def test_reasoning_details_go_back_to_who_sent_them_only(connect: Connect) -> None:
    reply = {"text": "42", "reasoning": "Six by seven.", "reasoning_field": "reasoning_details"}
    async with fake_model(answers(reply)) as server:
        router = connect(endpoint_at(server.url, "openrouter"), NO_RETRIES, Timeouts())
        other = connect(endpoint_at(server.url), NO_RETRIES, Timeouts())
        async with router as model, other as another:
            entry = assistant_message(await answer(model))
            user = {"role": "user", "content": "6 * 7?"}
            history = request(user, entry, user)
            await answer(model, history)
            await answer(another, history)
    _, echoed, stripped = (body["messages"] for body in server.bodies)
    details = [{"type": "reasoning.text", "text": "Six by seven.", "index": 0}]
    assert echoed[1] == {"role": "assistant", "content": "42", "reasoning_details": details}
    assert stripped[1] == {"role": "assistant", "content": "42"}


SIGNED = {"google": {"thought_signature": "c2ln"}}
CALLED = {"id": "a", "type": "function", "function": {"name": "terminal", "arguments": "{}"}}
MORE = {"role": "user", "content": "More."}


def attaching(**fields: object) -> dict[str, Any]:
    """An answer with a call, and with what some providers attach to either."""
    call = {"index": 0, **CALLED, "extra_content": SIGNED}
    deltas: list[dict[str, Any]] = [{field: text} for field, text in fields.items()]
    deltas += [{"tool_calls": [call]}, {"extra_content": SIGNED}]
    chunks: list[dict[str, Any]] = [{"delta": delta} for delta in deltas]
    chunks.append({"delta": {}, "finish_reason": "tool_calls"})
    return {"raw": [*(json.dumps({"choices": [each]}) for each in chunks), "[DONE]"]}


@ONLY_CHAT
@pytest.mark.parametrize("field", ["reasoning", "reasoning_content"])
async def test_what_a_provider_attached_goes_back_to_it_only(connect: Connect, field: str) -> None:
    said = {"role": "assistant", "content": None, "tool_calls": [CALLED]}
    script = answers(attaching(**{field: "I look."}), {"text": "Hi"})
    async with fake_model(script) as server, fake_model(answers({"text": "Hi"})) as elsewhere:
        own = connect(endpoint_at(server.url), NO_RETRIES, Timeouts())
        other = connect(endpoint_at(server.url, "openrouter"), NO_RETRIES, Timeouts())
        far = connect(endpoint_at(elsewhere.url), NO_RETRIES, Timeouts())
        async with own as model, other as another, far as third:
            history = request(assistant_message(await answer(model)), MORE)
            await answer(model, history)
            await answer(model, replace(history, model="other"))
            await answer(another, history)
            await answer(third, history)
    bodies = [*server.bodies, *elsewhere.bodies]
    _, echoed, *stripped = (body["messages"] for body in bodies)
    call = {**CALLED, "extra_content": SIGNED}
    own_fields = {"tool_calls": [call], field: "I look.", "extra_content": SIGNED}
    assert echoed == [{**said, **own_fields}, MORE]
    assert stripped == [[said, MORE]] * 3


@ONLY_CHAT
async def test_what_a_provider_does_not_take_back_is_left_out(connect: Connect) -> None:
    error = {"error": {"message": "messages.0: property 'reasoning_content' is unsupported"}}
    refused = {"status": 400, "error": error}
    said = attaching(reasoning_content="I look.")
    async with scripted(connect, answers(said, refused, {"text": "Hi"})) as (model, server):
        history = request(assistant_message(await answer(model)), MORE)
        assert (await answer(model, history)).text == "Hi"
    assert "reasoning_content" in server.bodies[1]["messages"][0]
    plain = {"role": "assistant", "content": None, "tool_calls": [CALLED]}
    assert server.bodies[2]["messages"] == [plain, MORE]


@ONLY_CHAT
@pytest.mark.parametrize(
    ("message", "added"),
    [
        (
            "The reasoning_content in the thinking mode must be passed back to the API.",
            {"reasoning_content": " "},
        ),
        (
            "thinking is enabled but reasoning_content is missing in message 0",
            {"reasoning_content": " "},
        ),
        (
            "Function call is missing a thought_signature in functionCall parts.",
            {
                "tool_calls": [
                    {
                        **CALLED,
                        "extra_content": {
                            "google": {"thought_signature": "skip_thought_signature_validator"}
                        },
                    }
                ]
            },
        ),
    ],
)
async def test_calls_of_another_model_get_what_a_provider_demands(
    connect: Connect, message: str, added: dict[str, Any]
) -> None:
    said = {"role": "assistant", "content": None, "tool_calls": [CALLED]}
    refused = {"status": 400, "error": {"error": {"message": message}}}
    async with scripted(connect, answers(refused, {"text": "Hi"})) as (model, server):
        assert (await answer(model, request(said, MORE))).text == "Hi"
    assert server.bodies[1]["messages"] == [{**said, **added}, MORE]


@ONLY_CHAT
async def test_usage_is_reported_with_cache_and_cost(connect: Connect) -> None:
    usage = {
        "prompt_tokens": 1200,
        "completion_tokens": 34,
        "prompt_tokens_details": {"cached_tokens": 1024},
        "completion_tokens_details": {"reasoning_tokens": 12},
        "cost": 0.001234,
    }
    async with scripted(connect, answers({"text": "Hi", "usage": usage})) as (model, _):
        message = await answer(model)
    assert message.usage == Usage(1200, 34, 1024, 12, 1234)


async def test_counts_that_cannot_be_are_none(connect: Connect) -> None:
    sent = dict.fromkeys(("prompt_tokens", "input_tokens"), 10**30)
    said = dict.fromkeys(("completion_tokens", "output_tokens"), True)
    async with scripted(connect, answers({"text": "Hi", "usage": {**sent, **said}})) as (model, _):
        message = await answer(model)
    assert message.usage is not None
    assert repr(message.usage) == repr(Usage())  # to which False is not 0


@ONLY_CHAT
async def test_no_usage_is_none(connect: Connect) -> None:
    chunk = {"choices": [{"delta": {"content": "Hi"}, "finish_reason": "stop"}]}
    async with scripted(connect, answers({"raw": [json.dumps(chunk), "[DONE]"]})) as (model, _):
        message = await answer(model)
    assert (message.text, message.usage) == ("Hi", None)


@ONLY_CHAT
async def test_the_request_says_what_was_asked(connect: Connect) -> None:
    system = {"role": "system", "content": 'Sei höflich: \x00 \u2028 "quoted"'}
    user = {"role": "user", "content": "Hello"}
    async with scripted(connect, answers({"text": "Hi"})) as (model, server):
        await ask(model, request(system, user))
        await ask(model, ModelRequest("other", [encoded(user)], max_tokens=100))
    first, second = server.bodies
    assert first == {
        "model": "scripted",
        "messages": [system, user],
        "tools": json.loads(TOOLS),
        "tool_choice": "auto",
        "max_tokens": 16_384,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    assert (second["model"], second["max_tokens"]) == ("other", 100)
    assert "tools" not in second
    headers = server.requests[0].headers
    assert headers["authorization"] == f"Bearer {KEY}"
    assert not [name for name in headers if name.startswith("x-stainless")], "about this machine"


@ONLY_CHAT
async def test_a_longer_conversation_begins_with_the_same_bytes(connect: Connect) -> None:
    messages = [encoded({"role": "user", "content": f"Frage {n}: ä"}) for n in range(6)]
    async with scripted(connect, answers({"text": "Hi"})) as (model, server):
        for length in (3, 6):
            await ask(model, ModelRequest("scripted", messages[:length], TOOLS))
    short, long = (request.body for request in server.requests)
    kept = short.index(b"}]") + 1
    assert kept > sum(map(len, messages[:3]))
    assert short[:kept] == long[:kept]


async def test_the_connection_is_used_again(connect: Connect) -> None:
    async with scripted(connect, answers({"text": "Hi", "chunk_chars": 1})) as (model, server):
        for _ in range(3):
            await ask(model)
    assert len({request.peer for request in server.requests}) == 1


async def test_many_calls_run_side_by_side(connect: Connect) -> None:
    script = answers({"text": "Hi", "latency_s": 30})
    async with scripted(connect, script) as (model, server), asyncio.TaskGroup() as group:
        calls = [group.create_task(answer(model)) for _ in range(64)]
        await server.until(lambda: len(server.requests) == 64)
        assert not any(request.outcome for request in server.requests)
        for call in calls:
            call.cancel()


@pytest.mark.parametrize("reply", [{"latency_s": 30}, {"hang_after": 0}, {"hang_after": 2}])
async def test_cancelling_closes_the_connection(connect: Connect, reply: Mapping[str, Any]) -> None:
    script = answers({"text": "Hi there", "chunk_chars": 2, **reply})
    async with scripted(connect, script) as (model, server):
        call = asyncio.create_task(ask(model))
        await server.until(lambda: bool(server.requests))
        await asyncio.sleep(0.05)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await server.until(lambda: server.requests[0].outcome != "")
        assert server.requests[0].outcome == "disconnected"
