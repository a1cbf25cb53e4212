"""A running agent service for tests, and what is asked of it."""

import asyncio
import hashlib
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from hermes.agent.v1 import turn_pb2
from hermes.agent.v1.turn_event_pb2 import TurnEvent
from hermes.agent.v1.turn_pb2_grpc import TurnServiceStub
from hermes.agent.v1.upload_pb2 import UploadFileRequest
from hermes.agent.v1.upload_pb2_grpc import UploadServiceStub
from hermes.common.v1.content_pb2 import FILE_KIND_DOCUMENT, FileKind, MessageFile, MessagePart
from hermes.common.v1.origin_pb2 import Origin
from services.cli.connection import connected
from services.config.settings import load_settings
from services.ids import new_id
from services.rpc.channels import Channels
from services.rpc.streams import open_stream


class AgentClient:
    """Starts and watches turns as the gateway does."""

    def __init__(self, channels: Channels) -> None:
        self.channels = channels
        self.turns = TurnServiceStub(channels.to("agent"))

    async def start(
        self,
        text: str | Sequence[MessagePart],
        *,
        session_id: str = "session",
        turn_id: str = "",
        profile: str = "",
        busy_mode: turn_pb2.BusyMode.ValueType = turn_pb2.BUSY_MODE_QUEUE,
        origin: Origin | None = None,
        **more: Any,
    ) -> turn_pb2.Turn:
        more.setdefault("kind", turn_pb2.TURN_KIND_USER)
        answer = await self.turns.StartTurn(
            turn_pb2.StartTurnRequest(
                turn_id=turn_id or new_id("trn"),
                profile=profile,
                session_id=session_id,
                parts=[MessagePart(text=text)] if isinstance(text, str) else text,
                origin=origin or Origin(platform="cli"),
                busy_mode=busy_mode,
                **more,
            )
        )
        return answer.turn

    async def watch(self, turn_id: str, after: int = 0, profile: str = "") -> list[TurnEvent]:
        """All events of a turn after a sequence, to its end."""
        request = turn_pb2.WatchTurnRequest(turn_id=turn_id, after_sequence=after, profile=profile)
        async with open_stream(self.turns.WatchTurn(request)) as call:
            return [event async for message in call for event in message.events]

    async def until(self, turn_id: str, *kinds: str) -> TurnEvent:
        request = turn_pb2.WatchTurnRequest(turn_id=turn_id)
        async with open_stream(self.turns.WatchTurn(request)) as call:
            async for message in call:
                for event in message.events:
                    if event.WhichOneof("kind") in kinds:
                        return event
        raise AssertionError(f"turn {turn_id} ended without {' or '.join(kinds)}")

    async def until_it_says_something(self, turn_id: str) -> None:
        """Wait for text, which who comes late sees as a snapshot."""
        await self.until(turn_id, "text_delta", "text_snapshot")

    async def ask(
        self,
        text: str,
        *files: MessageFile,
        session_id: str = "session",
        skills: Sequence[str] = (),
    ) -> list[TurnEvent]:
        started = await self.start(said(text, *files), session_id=session_id, skills=skills)
        return await self.watch(started.turn_id)

    async def upload(
        self, data: bytes, name: str, kind: FileKind.ValueType = FILE_KIND_DOCUMENT, **more: Any
    ) -> MessageFile:
        sha256 = hashlib.sha256(data).digest()
        header = UploadFileRequest.Header(length_bytes=len(data), sha256=sha256)
        pieces = (data[at : at + 500_000] for at in range(0, len(data), 500_000))
        sent = [UploadFileRequest(header=header), *(UploadFileRequest(chunk=p) for p in pieces)]
        await UploadServiceStub(self.channels.to("agent")).UploadFile(iter(sent))
        return MessageFile(kind=kind, name=name, length_bytes=len(data), sha256=sha256, **more)


def said(text: str, *files: MessageFile) -> list[MessagePart]:
    words = [MessagePart(text=text)] if text or not files else []
    return [*words, *(MessagePart(file=file) for file in files)]


@asynccontextmanager
async def agent(
    home: Path, model_url: str, services: Sequence[str] = ("agent",), /, **variables: str
) -> AsyncGenerator[AgentClient]:
    """Run the agent, and other services, in a home until the context is left."""
    environ = {
        "HOME": str(home),
        "HERMES_BASE_URL": model_url,
        "HERMES_MODEL": "scripted",
        "HERMES_API_KEY": "test-key",
        "HERMES_SKILLS_BUNDLED": "false",
        **variables,
    }
    settings = await asyncio.to_thread(load_settings, {"home": str(home)}, environ)
    await asyncio.to_thread(settings.home.create)
    async with connected(settings, services) as channels:
        yield AgentClient(channels)


def kinds(events: Sequence[TurnEvent]) -> list[str]:
    return [str(event.WhichOneof("kind")) for event in events if event.sequence]


def notices(events: Sequence[TurnEvent]) -> list[str]:
    """What a person is told beside the answer, also when the turn is looked at later."""
    return [event.notice.text for event in events if event.notice.lasts]


def sequences(events: Sequence[TurnEvent]) -> list[int]:
    return [event.sequence for event in events if event.sequence]


def answer(events: Sequence[TurnEvent]) -> str:
    return events[-1].turn_finished.completed.answer
