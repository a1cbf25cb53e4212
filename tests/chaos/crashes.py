"""Turns that are watched while what carries them is killed."""

import asyncio
import random
import sqlite3
import zlib
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, asynccontextmanager, closing
from dataclasses import dataclass, field
from pathlib import Path

import grpc.aio

from hermes.agent.v1.session_pb2 import ListMessagesRequest
from hermes.agent.v1.session_pb2_grpc import SessionServiceStub
from hermes.agent.v1.turn_event_pb2 import TurnEvent
from hermes.gateway.v1.conversation_pb2 import ConverseRequest, ConverseResponse
from services.cli.chat.dialogue import Dialogue
from services.errors import Reason, reason_of
from services.rpc.channels import Channels
from tests.e2e.client import channels_of
from tests.e2e.deployment import Deployment
from tests.e2e.model import TELL, calls, rule, terminal_call, tool_call

WRITTEN = "first\nsecond"
OUTPUTS = ["one begins\none ends", "two begins\ntwo ends"]
ANSWER = f"Both are done. {OUTPUTS[1]}"
DONE_WITHIN_S, SAID_AGAIN_AFTER_S = 40.0, 0.2
PIECES = {"chunk_chars": 4, "chunk_delay_s": 0.02}


def _command(number: str, line: str) -> str:
    return f"echo {number} begins; echo {line} >>log.txt; sleep 0.3; echo {number} ends"


PROGRAM = """
from hermes_tools import terminal, write_file
for line in ("first", "second"):
    print(terminal("echo %s >>log.txt; sleep 0.3; echo %s" % (line, line)))
    write_file(line, line)
"""

TWO_COMMANDS = (
    {**calls(terminal_call(_command("one", "first")), text="The first one."), **PIECES},
    {**calls(terminal_call(_command("two", "second")), text="The second one."), **PIECES},
)
RULES = (
    rule("two commands", *TWO_COMMANDS, {"text": "Both are done. {tool_result}", **PIECES}),
    rule("errand", *TWO_COMMANDS, {"text": "re: {user}", **PIECES}),
    rule("job", {"text": "re: {user}", **PIECES}),
    rule("a program", calls(tool_call("execute_code", code=PROGRAM)), TELL),
    rule("clean up", calls(terminal_call("rm -rf src; echo cleaned >>log.txt")), TELL),
    rule("show the log", calls(terminal_call("cat log.txt")), TELL),
)


@dataclass(frozen=True, slots=True)
class Point:
    """A moment of a turn: so long after so many of what the watcher or the journal shows."""

    after: str
    """A kind of response or event; `said` is when the message was sent, `TOOL INTENT` and
    `TOOL DONE` are what a step of the journal says."""
    count: int = 1
    from_ms: int = 0
    to_ms: int = 5

    def __str__(self) -> str:
        return f"{self.after.replace(' ', '_')}-{self.count}+{self.from_ms}..{self.to_ms}ms"

    @property
    def delay_s(self) -> float:
        """A delay within the bounds, the same in every run."""
        seed = zlib.crc32(str(self).encode())
        return random.Random(seed).uniform(self.from_ms, self.to_ms) / 1000


KILL_POINTS = (
    Point("said"),
    Point("accepted"),
    Point("turn_started"),
    Point("text_delta", from_ms=0, to_ms=20),
    Point("text_delta", count=3, from_ms=0, to_ms=20),
    Point("TOOL INTENT", to_ms=2),
    Point("tool_started"),
    Point("tool_started", from_ms=5, to_ms=40),
    Point("tool_progress"),
    Point("tool_progress", from_ms=100, to_ms=250),
    Point("tool_progress", from_ms=280, to_ms=320),
    Point("TOOL DONE", to_ms=2),
    Point("tool_finished"),
    Point("text_delta", count=6, from_ms=0, to_ms=20),
    Point("tool_started", count=2, from_ms=0, to_ms=30),
    Point("tool_progress", count=3, from_ms=0, to_ms=300),
    Point("TOOL DONE", count=2, to_ms=2),
    Point("tool_finished", count=2),
    Point("text_delta", count=10, from_ms=0, to_ms=40),
    Point("turn_finished"),
)
"""Moments of the turn with two commands, from its first to its last."""


@dataclass(slots=True)
class Watcher:
    """One conversation and everything of it that came, across all reconnects."""

    dialogue: Dialogue
    session_id: str = ""
    turn_id: str = ""
    events: list[TurnEvent] = field(default_factory=list[TurnEvent])
    seen: Counter[str] = field(default_factory=Counter[str])
    _moved: asyncio.Event = field(default_factory=asyncio.Event)

    async def follow(self) -> None:
        """Take what comes until the turn has finished; what is refused meanwhile is said again."""
        while not self.seen["turn_finished"]:
            try:
                await self._follow()
            except grpc.aio.AioRpcError as error:
                if reason_of(error) is not Reason.DATABASE_UNAVAILABLE:
                    raise
                await asyncio.sleep(SAID_AGAIN_AFTER_S)

    async def _follow(self) -> None:
        async with aclosing(self.dialogue.responses()) as responses:
            async for response in responses:
                self._take(response)
                self._moved.set()
                if self.seen["turn_finished"]:
                    return

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until what came makes the condition true."""
        while not condition():
            self._moved.clear()
            await self._moved.wait()

    @property
    def sequences(self) -> list[int]:
        """The sequences of the durable events, in the order in which they came."""
        return [event.sequence for event in self.events if event.sequence]

    @property
    def answer(self) -> str:
        """What the turn ended with."""
        return self.events[-1].turn_finished.completed.answer

    def check_all_came_once(self) -> None:
        """The turn with two commands ended with its answer, and nothing was missed or repeated."""
        assert self.answer == ANSWER, self.events[-1]
        assert self.sequences == list(range(1, len(self.sequences) + 1))
        assert self.seen["tool_finished"] == 2

    def _take(self, response: ConverseResponse) -> None:
        kind = str(response.WhichOneof("kind"))
        assert kind != "reply", response.reply.text
        if kind == "opened":
            self.session_id = response.opened.session_id
        elif kind == "accepted":
            self.turn_id = response.accepted.turn_id
        self.events += response.event.events
        kinds = [str(event.WhichOneof("kind")) for event in response.event.events]
        self.seen.update(kinds or [kind])


@asynccontextmanager
async def asked(
    deployment: Deployment, text: str, session_id: str = "", within_s: float = DONE_WITHIN_S
) -> AsyncGenerator[Watcher]:
    """A question and its watcher."""
    async with (
        channels_of(deployment.client) as channels,
        asked_of(channels, text, session_id, within_s) as watcher,
    ):
        yield watcher


@asynccontextmanager
async def asked_of(
    operator: Channels, text: str, session_id: str = "", within_s: float = DONE_WITHIN_S
) -> AsyncGenerator[Watcher]:
    """A question and its watcher, over channels that there are."""
    opening = ConverseRequest.Open(session_id=session_id)
    dialogue = Dialogue(operator.to("gateway"), opening)
    dialogue.say(text)
    watcher = Watcher(dialogue)
    async with asyncio.TaskGroup() as group, asyncio.timeout(within_s):
        following = group.create_task(watcher.follow())
        yield watcher
        await following


async def tool_results(deployment: Deployment, watcher: Watcher) -> list[str]:
    """What the model was told of each command of the session."""
    async with channels_of(deployment.client) as channels:
        stub = SessionServiceStub(channels.to("agent"))
        page = await stub.ListMessages(ListMessagesRequest(session_id=watcher.session_id))
    return [message.text for message in page.messages if message.tool_call_id]


async def reach(watcher: Watcher, point: Point, journal: Path) -> None:
    """Return at that point of the turn."""
    if " " in point.after:
        await asyncio.to_thread(_await_step, journal, watcher, point)
        await asyncio.sleep(point.delay_s)
    else:
        await reach_event(watcher, point)


async def reach_event(watcher: Watcher, point: Point) -> None:
    """Return at a point that needs no look into the journal."""
    if point.after != "said":
        await watcher.until(lambda: watcher.seen[point.after] >= point.count)
    await asyncio.sleep(point.delay_s)


def _await_step(journal: Path, watcher: Watcher, point: Point) -> None:
    kind, state = point.after.split()
    query = "SELECT count(*) FROM step WHERE turn_id = ? AND kind = ? AND state = ?"
    with closing(sqlite3.connect(f"file:{journal}?mode=ro", uri=True)) as connection:
        while not watcher.seen["turn_finished"]:
            found = connection.execute(query, (watcher.turn_id, kind, state)).fetchone()[0]
            if found >= point.count:
                return
