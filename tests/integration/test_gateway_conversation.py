"""Conversations through the gateway with the real agent, over a real socket."""

import asyncio
import json
from pathlib import Path
from typing import Any

import grpc.aio
import pytest

from hermes.agent.v1.turn_event_pb2 import APPROVAL_DECISION_DENY, APPROVAL_DECISION_ONCE, TurnEvent
from hermes.common.v1.content_pb2 import ContextFile
from hermes.gateway.v1.conversation_pb2 import ConverseRequest, ConverseResponse
from hermes.gateway.v1.conversation_pb2_grpc import ConversationServiceStub
from services.errors import Reason, reason_of
from tests.fakes.model import answers, fake_model
from tests.integration.gateway_parts import Hermes, client, hermes, opened_again

HELLO = answers({"text": "Hello!"})
ECHO = answers({"text": "re: {user}"})
ASK_FIRST = "approvals: {mode: manual}"
RUN = {"tool_calls": [{"name": "terminal", "arguments": {"command": "rm -r src"}}]}
OPEN_ROWS = "SELECT count(*) FROM inbox WHERE state <> 'CLOSED'"


class Wire:
    """The bare stream, for what a well-behaved client does not do."""

    def __init__(self, running: Hermes) -> None:
        stub: Any = ConversationServiceStub(running.operator.to("gateway"))
        self._call = stub.Converse()

    async def open(self, **fields: Any) -> ConverseResponse:
        await self._call.write(ConverseRequest(open=ConverseRequest.Open(**fields)))
        return await self._call.read()

    async def say(self, message_id: str, text: str) -> None:
        message = ConverseRequest.UserMessage(message_id=message_id, text=text)
        await self._call.write(ConverseRequest(user_message=message))

    async def turn(self) -> list[ConverseResponse]:
        """What is heard up to the end of a turn."""
        heard: list[ConverseResponse] = []
        while not (heard and _ends_turn(heard[-1])):
            heard.append(await self._call.read())
        return heard

    async def rest(self) -> list[ConverseResponse]:
        """What is heard after the last word of the client."""
        await self._call.done_writing()
        heard: list[ConverseResponse] = []
        while isinstance(response := await self._call.read(), ConverseResponse):
            heard.append(response)
        return heard

    def hang_up(self) -> None:
        self._call.cancel()


def durable(heard: list[ConverseResponse]) -> list[TurnEvent]:
    """The durable events among what was heard."""
    return [event for response in heard for event in response.event.events if event.sequence]


def _ends_turn(response: ConverseResponse) -> bool:
    return any(event.HasField("turn_finished") for event in response.event.events)


async def refusal(wire: Wire) -> Reason:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await wire.rest()
    return reason_of(caught.value)


async def test_a_message_is_answered(tmp_path: Path) -> None:
    async with (
        fake_model(HELLO) as model,
        hermes(tmp_path, model.url) as running,
        client(running) as talking,
    ):
        assert await talking.ask("hi") == "Hello!"
        [accepted] = talking.of("accepted")
        events = talking.events(accepted.accepted.turn_id)
        sequences = [event.sequence for event in events if event.sequence]
        assert sequences == list(range(1, len(sequences) + 1))
        assert await talking.ask("and again") == "Hello!"
        assert len(model.bodies[-1]["messages"]) >= 4
        await running.until_rows("gateway", OPEN_ROWS, [(0,)])


async def test_a_repeated_message_has_one_turn(tmp_path: Path) -> None:
    async with fake_model(ECHO) as model, hermes(tmp_path, model.url) as running:
        first, second = Wire(running), Wire(running)
        session_id = (await first.open()).opened.session_id
        await first.say("msg_1", "hi")
        accepted, *events = await first.turn()
        # The stream broke off before the client knew its session, so that it opens another.
        assert (await second.open()).opened.session_id != session_id
        await second.say("msg_1", "hi")
        corrected, accepted_again, *again = await second.turn()
        assert corrected.opened.session_id == session_id
        assert accepted_again == accepted
        assert durable(again) == durable(events)
        assert durable(events)[-1].HasField("turn_finished")
        assert len(model.requests) == 1
        assert await running.counted("hermes_duplicates_suppressed_total") == 1


async def test_a_client_that_comes_back_misses_nothing(tmp_path: Path) -> None:
    script = answers({"text": "one two three", "chunk_chars": 2, "chunk_delay_s": 0.05})
    async with fake_model(script) as model, hermes(tmp_path, model.url) as running:
        first = Wire(running)
        session_id = (await first.open()).opened.session_id
        await first.say("msg_1", "count")
        await running.until_rows("gateway", "SELECT count(*) FROM inbox", [(1,)])
        await model.until(lambda: len(model.requests) == 1)
        first.hang_up()
        async with client(running, opened_again(session_id)) as other:
            await running.until_rows("gateway", OPEN_ROWS, [(0,)])
            [(turn_id,)] = await running.rows("gateway", "SELECT turn_id FROM inbox")
            assert not other.events(turn_id)
        async with client(running, opened_again(session_id, **{turn_id: 1})) as back:
            await back.until(
                lambda it: any(e.HasField("turn_finished") for e in it.events(turn_id))
            )
            sequences = [event.sequence for event in back.events(turn_id) if event.sequence]
            assert sequences == list(range(2, len(sequences) + 2))


async def test_what_was_stored_is_seen_through_whenever_the_client_goes(tmp_path: Path) -> None:
    async with fake_model(HELLO) as model, hermes(tmp_path, model.url) as running:
        for number in range(12):
            wire = Wire(running)
            await wire.open()
            await wire.say(f"msg_{number}", "hi")
            await asyncio.sleep(number / 400)
            wire.hang_up()
        last = Wire(running)
        await last.open()
        await last.say("msg_last", "hi")
        await last.turn()
        await running.until_rows("gateway", OPEN_ROWS, [(0,)])
        stored = await running.rows("gateway", "SELECT count(*) FROM inbox")
        finished = "SELECT count(*) FROM turn WHERE state = 'COMPLETED'"
        assert await running.rows("agent", finished) == stored


async def test_an_interrupt_stops_the_turn_and_the_next_message_goes_on(tmp_path: Path) -> None:
    slow = {"user": "slow", "steps": [{"text": "too late", "latency_s": 30}]}
    script = {"rules": [slow, {"steps": [{"text": "at once"}]}]}
    async with (
        fake_model(script) as model,
        hermes(tmp_path, model.url) as running,
        client(running) as talking,
    ):
        message_id = talking.dialogue.say("slow")
        await model.until(lambda: len(model.requests) == 1)
        talking.dialogue.interrupt()
        await talking.until(lambda it: it.outcome(message_id) is not None)
        ended = talking.outcome(message_id)
        assert ended is not None
        assert ended.HasField("cancelled")
        message_id = talking.dialogue.say("slow again")
        await model.until(lambda: len(model.requests) == 2)
        assert await talking.ask("quick") == "at once"
        ended = talking.outcome(message_id)
        assert ended is not None
        assert ended.HasField("cancelled")


async def test_new_goes_on_in_another_session(tmp_path: Path) -> None:
    async with (
        fake_model(ECHO) as model,
        hermes(tmp_path, model.url) as running,
        client(running) as talking,
    ):
        session_id = await talking.open()
        assert await talking.ask("/etc/hosts has what?") == "re: /etc/hosts has what?"
        reply = await talking.command("/new")
        assert reply.session_id not in ("", session_id)
        assert await talking.ask("hi") == "re: hi"
        sessions = await running.rows("agent", "SELECT id FROM session ORDER BY id")
        assert sorted(sessions) == sorted([(session_id,), (reply.session_id,)])
        # What the agent has not heard of yet can be opened again as well.
        fresh = await talking.command("/new")
        async with client(running, opened_again(fresh.session_id)) as back:
            assert back.of("opened")[0].opened.resumed


async def test_approvals_are_answered_by_answer_and_by_command(tmp_path: Path) -> None:
    script = {"rules": [{"steps": [RUN, RUN, {"text": "So be it."}]}]}
    async with (
        fake_model(script) as model,
        hermes(tmp_path, model.url, ASK_FIRST) as running,
        client(running) as talking,
    ):
        message_id = talking.dialogue.say("clean up")
        await talking.until(lambda it: len(it.asked()) == 1)
        assert "Waiting for your decision" in (await talking.command("/status")).text
        talking.dialogue.decide(talking.asked()[0], APPROVAL_DECISION_DENY)
        await talking.until(lambda it: len(it.asked()) == 2)
        assert (await talking.command("/deny")).text == "Denied: terminal `rm -r src`."
        await talking.until(lambda it: it.outcome(message_id) is not None)
        ended = talking.outcome(message_id)
        assert ended is not None
        assert ended.completed.answer == "So be it."
        talking.dialogue.decide(talking.asked()[0], APPROVAL_DECISION_ONCE)
        await talking.until(lambda it: len(it.news()) == 1)
        assert talking.of("reply")[-1].reply.is_error
        decided = await running.rows("agent", "SELECT decided_by FROM approval")
        assert decided == [("cli:operator",)] * 2


async def test_a_question_is_answered_in_words(tmp_path: Path) -> None:
    question = {"name": "clarify", "arguments": {"question": "Which otter?"}}
    script = {"rules": [{"steps": [{"tool_calls": [question]}, {"text": "{tool_result}"}]}]}
    async with (
        fake_model(script) as model,
        hermes(tmp_path, model.url) as running,
        client(running) as talking,
    ):
        message_id = talking.dialogue.say("draw")
        await talking.until(lambda it: bool(it.clarifications()))
        (asked,) = talking.clarifications()
        talking.dialogue.answer(asked, "The Sea Otter")
        await talking.until(lambda it: it.outcome(message_id) is not None)
        ended = talking.outcome(message_id)
        assert ended is not None
        assert ended.completed.answer == "The user answered: The Sea Otter"
        talking.dialogue.answer("clr_nothing", "again")
        await talking.until(lambda it: len(it.news()) == 1)
        assert talking.of("reply")[-1].reply.is_error


async def test_the_session_used_last_is_found(tmp_path: Path) -> None:
    async with fake_model(HELLO) as model, hermes(tmp_path, model.url) as running:
        for resumed in (False, True):
            async with client(running, ConverseRequest.Open(latest=True)) as talking:
                assert talking.of("opened")[0].opened.resumed is resumed
                await talking.ask("hi")
        assert await running.rows("agent", "SELECT count(*) FROM session") == [(1,)]


async def test_what_makes_no_sense_is_refused(tmp_path: Path) -> None:
    async with fake_model(HELLO) as model, hermes(tmp_path, model.url) as running:
        wire = Wire(running)
        await wire.say("msg_1", "hi")
        assert await refusal(wire) is Reason.INVALID_ARGUMENT
        for text, message_id in (("", "msg_1"), ("hi", "no id!"), ("x" * 1024 * 1025, "msg_1")):
            wire = Wire(running)
            await wire.open()
            await wire.say(message_id, text)
            assert await refusal(wire) is Reason.INVALID_ARGUMENT
        wrong: dict[str, dict[str, Any]] = {
            "platform": {"platform": "telegram"},
            "session": {"session_id": "a\nb"},
            "sequence": {"watched_turns": [{"turn_id": "trn_1", "after_sequence": -1}]},
            "turn": {"watched_turns": [{"turn_id": "no id!"}]},
            "many turns": {"watched_turns": [{"turn_id": "trn_1"}] * 101},
        }
        for fields in wrong.values():
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await Wire(running).open(**fields)
            assert reason_of(caught.value) is Reason.INVALID_ARGUMENT
        for profile in ("", "other"):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await Wire(running).open(profile=profile, session_id="20200101_000000_abcdef")
            assert reason_of(caught.value) is Reason.NOT_FOUND


async def test_a_turn_that_cannot_be_started_is_said_so(tmp_path: Path) -> None:
    async with hermes(tmp_path, "") as running, client(running) as talking:
        reply = await talking.command("hello?")
        assert reply.is_error
        assert "HERMES_BASE_URL" in reply.text
        await running.until_rows("gateway", OPEN_ROWS, [(0,)])


async def test_the_notes_of_a_folder_come_with_the_first_message_of_a_session(
    tmp_path: Path,
) -> None:
    notes = ContextFile(path="../HERMES.md", text="Use tabs.")
    # There is no executor here that could be asked what the folder itself says.
    opening = ConverseRequest.Open(
        workdir=str(tmp_path), context_file=notes, skip_context_files=True
    )
    async with fake_model(ECHO) as model, hermes(tmp_path, model.url) as running:
        async with client(running, opening) as talking:
            for text in ("one", "two", "/new", "three", "four"):
                await (talking.command if text == "/new" else talking.ask)(text)
        rows = await running.rows("gateway", "SELECT payload FROM inbox ORDER BY sequence")
    payloads = [json.loads(payload) for (payload,) in rows]
    told = {payload["text"]: payload.get("notes_above") for payload in payloads}
    sent = {"path": "../HERMES.md", "text": "Use tabs."}
    assert told == {"one": sent, "two": None, "three": sent, "four": None}
