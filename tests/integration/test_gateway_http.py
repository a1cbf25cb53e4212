"""The OpenAI-compatible API, used by OpenAI's own SDK, with the real agent behind it."""

import asyncio
import sqlite3
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import aiohttp
import openai
import pytest

from hermes.agent.v1.session_change_pb2 import DeleteSessionRequest
from hermes.agent.v1.session_pb2_grpc import SessionServiceStub
from tests.fakes.model import answers
from tests.integration.http_parts import KEY, Api, api

HELLO = answers({"text": "Hello!"})
ECHO = {"rules": [{"steps": [{"text": "re: {user}"}]}]}
USAGE = {"prompt_tokens": 20, "completion_tokens": 3, "total_tokens": 23}
CLOSED = "SELECT DISTINCT state FROM inbox"


def said(*texts: str) -> list[Any]:
    """Messages of a user and an assistant in turn."""
    roles = ("user", "assistant")
    return [{"role": roles[n % 2], "content": text} for n, text in enumerate(texts)]


def steps(*replies: Any) -> dict[str, Any]:
    """A script for the model calls of each turn."""
    return {"rules": [{"steps": list(replies)}]}


async def chat(running: Api, *texts: str, **options: Any) -> str:
    """What a conversation is answered with."""
    client: Any = running.client
    answer = await client.chat.completions.create(model="hermes", messages=said(*texts), **options)
    return answer.choices[0].message.content or ""


async def _rest(stream: openai.AsyncStream[Any]) -> list[Any]:
    return [chunk async for chunk in stream]


async def sessions(running: Api) -> int:
    [(count,)] = await running.running.rows("agent", "SELECT count(*) FROM session")
    return count


async def test_a_completion(tmp_path: Path) -> None:
    script = answers({"text": "Hello!", "usage": USAGE})
    async with api(tmp_path, script) as running:
        answer = await running.client.chat.completions.create(
            model="hermes", messages=said("Who is there?")
        )
        assert answer.choices[0].message.content == "Hello!"
        assert answer.choices[0].finish_reason == "stop"
        assert answer.usage is not None
        assert answer.usage.total_tokens == 23
        assert running.sent()[-1]["content"] == "Who is there?"
        await running.running.until_rows("gateway", CLOSED, [("CLOSED",)])


async def test_a_streamed_completion(tmp_path: Path) -> None:
    slowly = {"chunk_chars": 4, "chunk_delay_s": 0.05}
    script = answers({"text": "Hello, you there!", "usage": USAGE, **slowly})
    async with api(tmp_path, script) as running:
        stream = await running.client.chat.completions.create(
            model="hermes", messages=said("Hi"), stream=True, stream_options={"include_usage": True}
        )
        chunks = [chunk async for chunk in stream]
        texts = [c.choices[0].delta.content or "" for c in chunks if c.choices]
        assert "".join(texts) == "Hello, you there!"
        assert len([text for text in texts if text]) > 1
        assert chunks[-2].choices[0].finish_reason == "stop"
        usage = chunks[-1].usage
        assert usage is not None
        assert (usage.prompt_tokens, usage.completion_tokens) == (20, 3)


async def test_tools_are_shown_as_reasoning(tmp_path: Path) -> None:
    remember = {"name": "memory", "arguments": {"action": "add", "target": "user", "content": "x"}}
    script = steps({"text": "I note it.", "tool_calls": [remember]}, {"text": "Noted."})
    async with api(tmp_path, script) as running:
        stream = await running.client.chat.completions.create(
            model="hermes", messages=said("Note x"), stream=True
        )
        deltas = [chunk.choices[0].delta async for chunk in stream]
        shown = "".join(getattr(delta, "reasoning_content", "") for delta in deltas)
        assert shown.startswith("▸ memory")
        assert "".join(delta.content or "" for delta in deltas) == "I note it.\n\nNoted."
        assert await chat(running, "Note x") == "Noted."


async def test_a_conversation_goes_on_in_its_session(tmp_path: Path) -> None:
    async with api(tmp_path, ECHO) as running:
        assert await chat(running, "one") == "re: one"
        assert await chat(running, "one", "re:  one ", "two") == "re: two"
        assert await sessions(running) == 1
        assert [m["content"] for m in running.sent() if m["role"] == "assistant"] == ["re: one"]
        # A conversation that went on otherwise is another one.
        assert await chat(running, "one", "changed", "two") == "re: two"
        assert await sessions(running) == 2
        assert [m["content"] for m in running.sent()[-3:]] == ["one", "changed", "two"]
        # What was said before the last answer is not asked again in the first one's session.
        assert await chat(running, "one", "re: one", "two") == "re: two"
        assert await sessions(running) == 3


async def test_a_conversation_whose_session_was_deleted(tmp_path: Path) -> None:
    async with api(tmp_path, ECHO) as running:
        await chat(running, "one")
        [(session_id,)] = await running.running.rows("agent", "SELECT id FROM session")
        agent = SessionServiceStub(running.running.operator.to("agent"))
        await agent.DeleteSession(DeleteSessionRequest(session_id=session_id))
        assert await chat(running, "one", "re: one", "two") == "re: two"
        heard = [m["content"] for m in running.sent() if m["role"] != "system"]
        assert heard == ["one", "re: one", "two"]


async def test_secrets_are_not_shown(tmp_path: Path) -> None:
    told = {"name": "memory", "arguments": {"action": "add", "target": "user", "content": KEY}}
    whispered = {"text": f"It is {KEY}.", "reasoning": f"Not {KEY}", "chunk_chars": 7}
    async with api(tmp_path, steps({"tool_calls": [told]}, whispered)) as running:
        stream = await running.client.chat.completions.create(
            model="hermes", messages=said("Which key?"), stream=True
        )
        chunks = [chunk.choices[0].delta async for chunk in stream]
        shown = "".join(delta.content or "" for delta in chunks)
        work = "".join(getattr(delta, "reasoning_content", "") for delta in chunks)
        assert shown.startswith("It is ")
        assert work.startswith("▸ memory")
        assert KEY not in shown + work
        assert KEY not in await chat(running, f"Is it {KEY}?")
        payloads = await running.running.rows("gateway", "SELECT payload FROM inbox")
        assert KEY not in str(payloads)


async def test_people_do_not_share_a_conversation(tmp_path: Path) -> None:
    async with api(tmp_path, ECHO) as running:
        await chat(running, "one", user="ada")
        await chat(running, "one", "re: one", "two", user="bob")
        assert await sessions(running) == 2


async def test_a_session_that_the_client_names(tmp_path: Path) -> None:
    async with api(tmp_path, ECHO) as running:
        raw = running.client.chat.completions.with_raw_response
        named = {"X-Hermes-Session-Id": "mine-1"}
        one = await raw.create(model="hermes", messages=said("one"), extra_headers=named)
        assert one.headers["X-Hermes-Session-Id"] == "mine-1"
        # What the session knows is not taken from the client again.
        await raw.create(model="hermes", messages=said("a", "b", "two"), extra_headers=named)
        heard = [m["content"] for m in running.sent() if m["role"] != "system"]
        assert heard == ["one", "re: one", "two"]
        status, refused = await running.post(
            "/v1/chat/completions", {"messages": said("x")}, X_Hermes_Session_Id="no id"
        )
        assert (status, refused["error"]["param"]) == (400, "X-Hermes-Session-Id")


async def test_system_messages_and_parts(tmp_path: Path) -> None:
    async with api(tmp_path, HELLO) as running:
        parts = [{"type": "text", "text": "two"}, {"type": "text", "text": "parts"}]
        messages = [
            {"role": "system", "content": "Speak like a pirate."},
            {"role": "user", "content": parts},
        ]
        status, _ = await running.post("/v1/chat/completions", {"messages": messages})
        assert status == 200
        assert "Speak like a pirate." in running.sent()[0]["content"]
        assert running.sent()[-1]["content"] == "two\nparts"


async def test_models(tmp_path: Path) -> None:
    yaml = "platforms: {api_server: {extra: {models: [large]}}}"
    async with api(tmp_path, HELLO, yaml) as running:
        models = await running.client.models.list()
        assert [model.id for model in models.data] == ["hermes", "large"]
        assert (await running.client.models.retrieve("large")).id == "large"
        await running.client.chat.completions.create(model="large", messages=said("Hi"))
        assert running.model.bodies[-1]["model"] == "large"
        with pytest.raises(openai.NotFoundError, match="there is no model 'other'") as caught:
            await running.client.chat.completions.create(model="other", messages=said("Hi"))
        assert caught.value.code == "model_not_found"


@pytest.mark.parametrize("key", ["", "wrong", KEY + "x"])
async def test_a_wrong_key(tmp_path: Path, key: str) -> None:
    async with api(tmp_path, HELLO) as running:
        wrong = running.client.with_options(api_key=key or "x", default_headers={"x": "y"})
        with pytest.raises(openai.AuthenticationError) as caught:
            await wrong.chat.completions.create(model="hermes", messages=said("Hi"))
        assert caught.value.code == "invalid_api_key"
        assert running.model.requests == []


BAD: list[tuple[Any, str]] = [
    ({"messages": []}, "messages"),
    ({"messages": said("Hi", "Hello")}, "messages"),
    ({"messages": [{"role": "user", "content": " "}]}, "messages"),
    ({"messages": "Hi"}, "messages"),
    ({"messages": said("Hi"), "n": 2}, "n"),
    (
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]},
        "messages[0].content[0]",
    ),
]


async def test_bad_requests(tmp_path: Path) -> None:
    async with api(tmp_path, HELLO) as running:
        for body, parameter in BAD:
            status, answer = await running.post("/v1/chat/completions", body)
            assert (status, answer["error"]["param"]) == (400, parameter), answer
            assert answer["error"]["type"] == "invalid_request_error"
        for path, status, code in (
            ("/v1/nothing", 404, "not_found"),
            ("/v1/chat/completions", 405, "method_not_allowed"),
        ):
            async with running.http.get(path) as response:
                assert "Server" not in response.headers
                assert response.status == status
                assert (await response.json())["error"]["code"] == code
        assert running.model.requests == []


async def test_a_model_that_fails(tmp_path: Path) -> None:
    refused = {"status": 401, "error": {"message": "no such key"}}
    async with api(tmp_path, answers(refused)) as running:
        retrying = running.client.with_options(max_retries=2)
        with pytest.raises(openai.APIStatusError) as caught:
            await retrying.chat.completions.create(model="hermes", messages=said("Hi"))
        assert (caught.value.status_code, caught.value.code) == (502, "model_auth")
        # The SDK did not repeat a turn that has had its effects.
        assert await sessions(running) == 1
        stream = await running.client.chat.completions.create(
            model="hermes", messages=said("Hi"), stream=True
        )
        with pytest.raises(openai.APIError) as streamed:
            await _rest(stream)
        assert streamed.value.code == "model_auth"


async def test_a_client_that_leaves_stops_the_turn(tmp_path: Path) -> None:
    slow = {"text": "Hello", "hang_after": 1}
    async with api(tmp_path, answers(slow)) as running:
        stream = await running.client.chat.completions.create(
            model="hermes", messages=said("Hi"), stream=True
        )
        await anext(aiter(stream))
        await stream.close()
        stopped = "SELECT DISTINCT state FROM turn"
        await running.running.until_rows("agent", stopped, [("CANCELLED",)])
        asking = asyncio.create_task(chat(running, "Hi"))
        await running.model.until(lambda: len(running.model.requests) == 2)
        asking.cancel()
        await running.running.until_rows("agent", stopped, [("CANCELLED",)])
        await running.running.until_rows("gateway", CLOSED, [("CLOSED",)])
        assert await sessions(running) == 2


@asynccontextmanager
async def _locked(running: Api) -> AsyncGenerator[None]:
    """Hold the agent up, so that turns do not begin."""
    path = running.running.settings.home.database("agent")
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as database:
        await asyncio.to_thread(database.execute, "BEGIN IMMEDIATE")
        yield
        await asyncio.to_thread(database.execute, "ROLLBACK")


async def _leave(running: Api, **options: Any) -> None:
    """Ask, and disconnect before the turn has begun."""
    asking = asyncio.create_task(chat(running, "Hi", **options))
    await running.running.until_rows("gateway", "SELECT count(*) FROM inbox", [(1,)])
    asking.cancel()
    await asyncio.wait({asking})
    # An answer on another connection shows that the gateway knows who has left.
    assert (await running.http.get("/v1/models")).status == 200


async def test_a_client_that_leaves_before_its_turn_has_begun_stops_it(tmp_path: Path) -> None:
    async with api(tmp_path, answers({"text": "Hello", "hang_after": 1})) as running:
        async with _locked(running):
            await _leave(running)
        await running.running.until_rows("agent", "SELECT state FROM turn", [("CANCELLED",)])
        await running.running.until_rows("gateway", CLOSED, [("CLOSED",)])
        assert await sessions(running) == 1


async def test_a_client_that_leaves_and_can_repeat_its_request_stops_nothing(
    tmp_path: Path,
) -> None:
    key = {"extra_headers": {"Idempotency-Key": "k"}}
    async with api(tmp_path, HELLO) as running:
        async with _locked(running):
            await _leave(running, **key)
        assert await chat(running, "Hi", **key) == "Hello!"


async def test_a_conversation_goes_on_after_its_answer_was_stopped(tmp_path: Path) -> None:
    slow = {"text": "Hello, you", "chunk_chars": 5, "chunk_delay_s": 0.05, "hang_after": 2}
    script = {"rules": [{"user": "go on", "steps": [{"text": "On."}]}, *answers(slow)["rules"]]}
    async with api(tmp_path, script) as running:
        stream = await running.client.chat.completions.create(
            model="hermes", messages=said("Hi"), stream=True
        )
        shown = ""
        async for chunk in stream:
            shown += chunk.choices[0].delta.content or ""
            if len(shown) == 10:
                break
        await stream.close()
        stopped = "SELECT DISTINCT state FROM turn"
        await running.running.until_rows("agent", stopped, [("CANCELLED",)])
        await running.running.until_rows("gateway", CLOSED, [("CLOSED",)])
        assert await chat(running, "Hi", shown, "go on") == "On."
        assert await sessions(running) == 1


async def test_a_request_that_is_repeated_is_answered_once(tmp_path: Path) -> None:
    async with api(tmp_path, ECHO) as running:
        body = {"messages": said("one")}
        first = await running.post("/v1/chat/completions", body, Idempotency_Key="k")
        again = await running.post("/v1/chat/completions", body, Idempotency_Key="k")
        assert first[1]["id"] == again[1]["id"]
        assert again[1]["choices"] == first[1]["choices"]
        other = {"messages": said("two")}
        status, refusal = await running.post("/v1/chat/completions", other, Idempotency_Key="k")
        assert (status, refusal["error"]["code"]) == (409, "idempotency_key_reused")
        assert len(running.model.requests) == 1


RUN = {"tool_calls": [{"name": "terminal", "arguments": {"command": "rm -r src"}}]}
ASK = "approvals: {mode: manual}"


async def test_what_would_have_to_be_approved_is_not_run(tmp_path: Path) -> None:
    async with api(tmp_path, steps(RUN, {"text": "I could not."}), ASK) as running:
        answer = await chat(running, "Clean up")
        assert answer.startswith("I could not.\n\nNot run, because nobody can allow it here:")
        assert "rm -r src" in answer


async def test_what_would_have_to_be_approved_can_be_allowed(tmp_path: Path) -> None:
    allowed = {"API_SERVER_APPROVALS": "allow"}
    async with api(tmp_path, steps(RUN, {"text": "Done."}), ASK, **allowed) as running:
        assert await chat(running, "Clean up") == "Done."
        decided = "SELECT DISTINCT decision, decided_by FROM approval"
        await running.running.until_rows("agent", decided, [("once", "api_server:api")])


async def test_questions_are_answered_with_advice(tmp_path: Path) -> None:
    ask = {"tool_calls": [{"name": "clarify", "arguments": {"question": "Which one?"}}]}
    async with api(tmp_path, steps(ask, {"text": "I chose."})) as running:
        assert await chat(running, "Choose") == "I chose."
        assert "Nobody is there to answer" in running.sent()[-1]["content"]


async def test_what_was_begun_before_a_restart_is_closed(tmp_path: Path) -> None:
    async with api(tmp_path, answers({"text": "Hello", "hang_after": 1})) as running:
        await running.post("/v1/runs", {"input": "Hi"})
        await running.model.until(lambda: running.model.requests != [])
    async with api(tmp_path, HELLO) as running:
        await running.running.until_rows("gateway", CLOSED, [("CLOSED",)])
        await running.running.until_rows("agent", "SELECT state FROM turn", [("COMPLETED",)])
        assert await sessions(running) == 1


async def test_a_request_that_is_repeated_after_a_restart(tmp_path: Path) -> None:
    body, headers = {"messages": said("Hi")}, {"Idempotency-Key": "k"}
    async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {KEY}", **headers}) as http:
        async with api(tmp_path, answers({"text": "Hello", "hang_after": 1})) as running:
            url = f"http://127.0.0.1:{running.port}/v1/chat/completions"
            asking = asyncio.create_task(http.post(url, json=body))
            await running.model.until(lambda: running.model.requests != [])
        with pytest.raises(aiohttp.ClientError):
            await asking
    async with api(tmp_path, HELLO) as running:
        _, answer = await running.post("/v1/chat/completions", body, Idempotency_Key="k")
        assert answer["choices"][0]["message"]["content"] == "Hello!"
        assert await sessions(running) == 1
        assert len(running.model.requests) == 1
