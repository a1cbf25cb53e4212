"""People and jobs that keep a Hermes busy, and the count of what came of what they asked for."""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field

import grpc.aio

from gateway_service.storage.outbox import REPEAT
from hermes.agent.v1 import session_pb2
from hermes.agent.v1.session_pb2_grpc import SessionServiceStub
from hermes.common.v1.origin_pb2 import Origin
from hermes.scheduler.v1.job_pb2 import CreateJobRequest, Job
from hermes.scheduler.v1.job_pb2_grpc import JobServiceStub
from services.rpc.channels import Channels
from tests.chaos.crashes import (
    KILL_POINTS,
    SAID_AGAIN_AFTER_S,
    WRITTEN,
    Watcher,
    asked_of,
    reach_event,
)
from tests.fakes.telegram import FakeTelegram
from tests.support.executors import until

TERMINALS = range(3)
CHATS, JOB_CHATS = (1, 2, 3), (8, 9)
PATIENCE_S = 120.0
"""How long one answer may take while something is killed all the time."""
POINT_WITHIN_S = 5.0
PLACEHOLDER, MARK = "…", REPEAT.replace("_", "")
POINTS = [point for point in KILL_POINTS if " " not in point.after]
"""Those that a watcher sees by itself."""


@dataclass(slots=True)
class Traffic:
    """Everybody asks for the next thing when the last was answered, until it is over."""

    operator: Channels
    telegram: FakeTelegram
    over: bool = False
    asked: list[str] = field(default_factory=list[str])
    """All that was asked for; no two are alike."""
    cuts: dict[str, int] = field(default_factory=dict[str, int])
    """By what has not been answered yet: how often something was killed meanwhile."""
    _watchers: dict[int, Watcher] = field(default_factory=dict[int, Watcher])
    _sessions: dict[int, str] = field(default_factory=dict[int, str])
    """Of the terminals."""

    def begin(self, group: asyncio.TaskGroup) -> None:
        """Let everybody begin."""
        for number in TERMINALS:
            group.create_task(self._terminal(number))
        for chat_id in CHATS:
            group.create_task(self._chat(chat_id, "errand", self.telegram.say))
        for chat_id in JOB_CHATS:
            group.create_task(self._chat(chat_id, "job", self._schedule))

    async def reach_a_point(self, dice: random.Random) -> None:
        """Return at some moment of a turn that a terminal waits for."""
        # A turn that is lost three times at one step is given to a person.
        await until(lambda: max(self.cuts.values(), default=0) <= 1, PATIENCE_S)
        number, point = dice.choice(TERMINALS), dice.choice(POINTS)
        with suppress(TimeoutError):  # what it waits for may have been lost with a connection
            async with asyncio.timeout(POINT_WITHIN_S):
                await until(lambda: number in self._watchers)
                await reach_event(self._watchers[number], point)
        for text in self.cuts:
            self.cuts[text] += 1

    async def check(self) -> str:
        """All that was asked for was done and answered once; returns the figures."""
        shown = [text for chat in (*CHATS, *JOB_CHATS) for text in self.telegram.texts(chat)]
        said = Counter(text for text in shown if text != PLACEHOLDER)
        marked = {text for text in said if text.startswith(MARK)}
        twice = {text for text, count in said.items() if count > 1}
        assert not twice, "no answer is there twice without a mark, and no mark twice"
        answers = {_answer(text) for text in self.asked if not text.startswith("two commands")}
        answered = {text.removeprefix(MARK) for text in said}
        assert answered == answers, f"{answered ^ answers} of {shown}"
        assert await self._turns() == Counter(self.asked), "each was one turn"
        for number, session_id in self._sessions.items():
            async with asked_of(self.operator, "show the log", session_id) as showing:
                pass
            assert showing.answer == self._written(f"two commands {number}/")
        for chat_id in CHATS:
            await self.telegram.say(chat_id, "show the log")
            await self._shown(chat_id, self._written(f"errand {chat_id}/"))
        return f"{len(self.asked)} turns, none lost or twice, {len(marked)} answers marked"

    def _written(self, asked: str) -> str:
        """What the commands of a session have written, if each ran once."""
        return "\n".join([WRITTEN] * sum(text.startswith(asked) for text in self.asked))

    async def _turns(self) -> Counter[str]:
        """How often there is a turn for what."""
        stub = SessionServiceStub(self.operator.to("agent"))
        found: Counter[str] = Counter()
        listed = await stub.ListSessions(session_pb2.ListSessionsRequest(page_size=1000))
        for session in listed.sessions:
            request = session_pb2.ListMessagesRequest(session_id=session.session_id, page_size=1000)
            messages = (await stub.ListMessages(request)).messages
            found.update(each.text for each in messages if each.role == session_pb2.ROLE_USER)
        return found

    async def _terminal(self, number: int) -> None:
        async for text in self._questions(f"two commands {number}"):
            asking = asked_of(self.operator, text, self._sessions.get(number, ""), PATIENCE_S)
            async with asking as watcher:
                self._watchers[number] = watcher
            del self._watchers[number]
            watcher.check_all_came_once()
            self._sessions[number] = watcher.session_id

    async def _chat(
        self, chat_id: int, what: str, ask: Callable[[int, str], Awaitable[None]]
    ) -> None:
        async for text in self._questions(f"{what} {chat_id}"):
            await ask(chat_id, text)
            await self._shown(chat_id, _answer(text))

    async def _shown(self, chat_id: int, answer: str) -> None:
        answers = {answer, MARK + answer}
        await self.telegram.until(
            lambda: not answers.isdisjoint(self.telegram.texts(chat_id)), PATIENCE_S
        )

    async def _questions(self, what: str) -> AsyncGenerator[str]:
        number = 0
        while not self.over:
            text = f"{what}/{number}"
            self.asked.append(text)
            self.cuts[text] = 0
            yield text
            del self.cuts[text]
            number += 1

    async def _schedule(self, chat_id: int, text: str) -> None:
        """Have a job run at once and tell the chat."""
        job = Job(
            job_id=text.replace(" ", "-").replace("/", "-"),
            schedule="in 1 second",
            prompt=text,
            origin=Origin(platform="telegram", chat_id=f"{chat_id}"),
        )
        request = CreateJobRequest(job=job)
        stub = JobServiceStub(self.operator.to("scheduler"))
        while True:
            try:
                await stub.CreateJob(request, wait_for_ready=True, timeout=PATIENCE_S)
            except grpc.aio.AioRpcError as error:
                if error.code() is not grpc.StatusCode.UNAVAILABLE:
                    raise
                await asyncio.sleep(SAID_AGAIN_AFTER_S)
            else:
                return


def _answer(text: str) -> str:
    return f"re: {text}"
