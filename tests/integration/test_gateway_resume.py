"""Sessions that are gone on with by their titles, and what runs in one that was left."""

from pathlib import Path

from hermes.agent.v1.session_pb2 import RenameSessionRequest
from hermes.agent.v1.session_pb2_grpc import SessionServiceStub
from hermes.gateway.v1.conversation_pb2 import ConverseRequest
from tests.fakes.model import answers, fake_model
from tests.integration.gateway_parts import client, hermes

ECHO = answers({"text": "re: {user}"})
SLOW = answers({"text": "too late", "latency_s": 30})


def by_title() -> ConverseRequest.Open:
    return ConverseRequest.Open(session_id="holiday PLANS")


async def test_of_two_sessions_of_a_title_the_one_used_last_goes_on(tmp_path: Path) -> None:
    async with fake_model(ECHO) as model, hermes(tmp_path, model.url) as running:
        sessions = SessionServiceStub(running.operator.to("agent"))
        ids: list[str] = []
        for text in ("one", "two"):
            async with client(running) as talking:
                ids.append(await talking.open())
                await talking.ask(text)
            await sessions.RenameSession(
                RenameSessionRequest(session_id=ids[-1], title="Holiday plans")
            )
        async with client(running, by_title()) as talking:
            assert await talking.open() == ids[1]
        async with client(running, ConverseRequest.Open(session_id=ids[0])) as talking:
            await talking.ask("three")
        async with client(running, by_title()) as talking:
            assert await talking.open() == ids[0]


async def test_what_runs_can_be_stopped_from_a_new_session(tmp_path: Path) -> None:
    async with (
        fake_model(SLOW) as model,
        hermes(tmp_path, model.url) as running,
        client(running) as talking,
    ):
        message_id = await talking.dialogue.say("work")
        await model.until(lambda: len(model.requests) == 1)
        assert (await talking.command("/new")).session_id
        await talking.dialogue.interrupt()
        await talking.until(lambda it: it.outcome(message_id) is not None)
        ended = talking.outcome(message_id)
        assert ended is not None
        assert ended.HasField("cancelled")
