"""Files of messages in sandboxes, and over the death of the agent that reads them."""

import asyncio
from pathlib import Path

from agent_service.storage import schema, uploads
from hermes.agent.v1.session_change_pb2 import DeleteSessionRequest
from hermes.agent.v1.session_pb2_grpc import SessionServiceStub
from hermes.common.v1.content_pb2 import FILE_KIND_VOICE
from services.clock import SystemClock
from services.database import Database
from tests.fakes.model import answers, fake_model
from tests.fakes.transcriber import KEY, transcriber
from tests.integration.agent_parts import agent, answer, said
from tests.integration.test_agent_takeover import TELL, staged

READ = {"tool_calls": [{"name": "terminal", "arguments": {"command": "cat uploads/*.csv"}}]}
CHANGE = {
    "tool_calls": [
        {"name": "terminal", "arguments": {"command": "cat uploads/*; rm uploads/a.csv"}}
    ]
}


async def test_sandboxes_have_the_files_until_somebody_removes_them(
    tmp_path: Path, postgres_url: str
) -> None:
    script = {"rules": [{"user": "change", "steps": [CHANGE, TELL]}, {"steps": [READ, TELL]}]}
    async with staged(tmp_path, postgres_url, script) as stage:
        async with stage.agent("first") as first, first.client() as client:
            table = await client.upload(b"1,2\0", "../a.csv")
            assert "1,2" in answer(await client.ask("change it", table))
        async with stage.agent("second") as second, second.client() as client:
            assert "No such file" in answer(await client.ask("read"))
            assert "1,2" in answer(await client.ask("read", await client.upload(b"1,2", "b.csv")))


async def test_a_voice_is_heard_again_when_the_agent_died_over_it(
    tmp_path: Path, postgres_url: str
) -> None:
    async with (
        transcriber() as heard,
        staged(tmp_path, postgres_url, answers({"text": "well"})) as stage,
    ):
        heard.hangs = True
        for name in ("first", "second"):
            await asyncio.to_thread(_configure, tmp_path / name, heard.url)
        async with stage.agent("first") as first, first.client() as client:
            voice = await client.upload(b"OggS", "", FILE_KIND_VOICE)
            turn = await client.start(said("", voice))
            await heard.asked.wait()
        heard.hangs = False
        async with stage.agent("second") as second, second.client() as client:
            events = await client.watch(turn.turn_id)
        assert events[-1].turn_finished.HasField("completed")
        told = [message["content"] for message in stage.model.bodies[0]["messages"][1:]]
        assert ["Good morning." in text for text in told] == [True]
        assert len(await stage.rows(schema.session_file)) == 1


def _configure(home: Path, url: str) -> None:
    home.mkdir()
    told = f"{{model: whisper, base_url: '{url}', key_env: HEARING_KEY}}"
    (home / "config.yaml").write_text(f"auxiliary: {{transcription: {told}}}\n")
    (home / ".env").write_text(f"HEARING_KEY={KEY}\n")


async def test_files_go_with_the_last_session_that_has_them(tmp_path: Path) -> None:
    left: list[int] = []
    async with fake_model({"rules": [{"steps": [{"text": "well"}]}]}) as model:
        async with agent(tmp_path, model.url) as client:
            text = await client.upload(b"hello", "a.txt")
            for session in ("one", "two"):
                await client.ask("Look.", text, session_id=session)
        for session in ("one", "two"):
            async with agent(tmp_path, model.url) as client:
                await SessionServiceStub(client.channels.to("agent")).DeleteSession(
                    DeleteSessionRequest(session_id=session)
                )
            left.append(await _forgotten(tmp_path))
    assert left == [0, 1]


async def _forgotten(home: Path) -> int:
    clock = SystemClock()
    async with Database(f"sqlite:///{home}/state/agent.db", "agent", clock) as database:
        return await database.write(lambda conn: uploads.forget(conn, clock.now()))
