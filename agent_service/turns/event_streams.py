"""Streams turns' events to watchers, live while this process owns them."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress
from datetime import datetime
from weakref import WeakValueDictionary

from msgspec import Struct
from msgspec.structs import replace

from agent_service.records.events import (
    Live,
    Notice,
    ReasoningDelta,
    Recorded,
    TextDelta,
    TextFinished,
    TextSnapshot,
    ToolFinished,
    ToolProgress,
    TurnFinished,
)
from agent_service.records.requests import TurnInfo
from agent_service.storage import turns
from services.clock import Clock
from services.database import Database
from services.errors import HermesError, NotFound

POLL_S = 0.25
"""The interval at which the journal is read for turns that are not owned here."""
LOOK_S = 1.0
"""The interval at which a turn of another replica is checked for its end."""
PROGRESS_KEPT_CHARS = 16_000
"""How much output is kept for a watcher that is slow or late."""


class Subscription:
    """One watcher's queue, kept short by merging live events."""

    def __init__(self, backlog: list[Recorded]) -> None:
        self._queue = deque(backlog)
        self._ready = asyncio.Event()
        self._urgent = asyncio.Event()
        """There is more than live text, or the end."""
        self._closed = False
        self._error: HermesError | None = None
        if backlog:
            self._ready.set()

    def put(self, item: Recorded) -> None:
        """Add an event, or merge it into the last one."""
        if item.sequence == 0:
            for index, waiting in enumerate(reversed(self._queue), 1):
                merged = _merge(waiting, item)
                if merged is not None:
                    self._queue[-index] = merged
                    return
                if not isinstance(item.event, ToolProgress) or waiting.sequence:
                    break
        self._queue.append(item)
        self._ready.set()
        if item.sequence:
            self._urgent.set()

    def close(self, error: HermesError | None = None) -> None:
        self._closed, self._error = True, error
        self._ready.set()
        self._urgent.set()

    async def events(self, pause_s: float = 0.0) -> AsyncGenerator[list[Recorded]]:
        """Yield batches of events until the stream is closed; raises the error of `close`.

        `pause_s` is how long new text is merged; other events do not wait.
        """
        while True:
            await self._ready.wait()
            self._ready.clear()
            while self._queue:
                waiting = list(self._queue)
                self._queue.clear()
                self._urgent.clear()
                yield waiting
                if pause_s and any(isinstance(each.event, TextDelta) for each in waiting):
                    await _wait(self._urgent, pause_s)
            if self._error is not None:
                raise self._error
            if self._closed:
                return


class TurnStream:
    """The events of one turn that this process owns."""

    def __init__(self, recorded: list[Recorded], attempt: int, profile: str) -> None:
        self.profile = profile
        self._recorded = recorded
        self._attempt = attempt
        self._partial = TextSnapshot(step=0, text="", reasoning="")
        self._progress: dict[str, ToolProgress] = {}
        self._subscriptions: set[Subscription] = set()
        self.failed: HermesError | None = None
        """Why the turn can neither end nor continue."""

    @property
    def partial_text(self) -> str:
        return self._partial.text

    def publish(self, item: Recorded) -> None:
        if item.sequence or isinstance(item.event, Notice):
            self._recorded.append(item)
        self._follow(item)
        for subscription in self._subscriptions:
            subscription.put(item)

    def void_partial(self, step: int) -> None:
        """Drop the text of a model call that is retried."""
        self._partial = TextSnapshot(step=step, text="", reasoning="")

    def subscribe(self, after_sequence: int, now: datetime) -> Subscription:
        """Return the events after a sequence, the text of running calls so far, then new events.

        Earlier notices are only for watchers that have seen nothing of the turn.
        """
        is_new = after_sequence == 0
        backlog = [item for item in self._recorded if is_new or item.sequence > after_sequence]
        if self._partial.text or self._partial.reasoning:
            backlog.append(Recorded(0, now, self._attempt, self._partial))
        backlog += [Recorded(0, now, self._attempt, said) for said in self._progress.values()]
        subscription = Subscription(backlog)
        self._subscriptions.add(subscription)
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        self._subscriptions.discard(subscription)

    def close(self) -> None:
        for subscription in self._subscriptions:
            subscription.close(self.failed)

    def _follow(self, item: Recorded) -> None:
        partial = self._partial
        match item.event:
            case TextDelta(text, step, offset):
                kept = partial.text if partial.step == step else ""
                reasoning = partial.reasoning if partial.step == step else ""
                self._partial = TextSnapshot(step, kept[:offset] + text, reasoning)
            case ReasoningDelta(text, step, offset):
                kept = partial.reasoning if partial.step == step else ""
                shown = partial.text if partial.step == step else ""
                self._partial = TextSnapshot(step, shown, kept[:offset] + text)
            case TextFinished():
                self._partial = TextSnapshot(step=0, text="", reasoning="")
            case ToolProgress(call_id, _):
                last = self._progress.get(call_id)
                self._progress[call_id] = item.event if last is None else _join(last, item.event)
            case ToolFinished(call_id=call_id):
                self._progress.pop(call_id, None)
            case _:
                pass


async def _wait(event: asyncio.Event, seconds: float) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()


def _merge(waiting: Recorded, item: Recorded) -> Recorded | None:
    if waiting.sequence or waiting.attempt != item.attempt:
        return None
    event = _merge_live(waiting.event, item.event)
    return None if event is None else replace(waiting, event=event)


def _merge_live(first: object, second: object) -> Live | None:
    match first, second:
        case (TextDelta(text, step, offset), TextDelta(more, step2, offset2)) | (
            ReasoningDelta(text, step, offset),
            ReasoningDelta(more, step2, offset2),
        ) if (step, offset + len(text)) == (step2, offset2):
            return replace(first, text=text + more)
        case ToolProgress(call_id), ToolProgress(call_id2):
            if call_id == call_id2:
                return _join(first, second)
        case _:
            pass
    return None


def _join(first: ToolProgress, second: ToolProgress) -> ToolProgress:
    return ToolProgress(second.call_id, (first.text + second.text)[-PROGRESS_KEPT_CHARS:])


class OwnedElsewhere(Struct, frozen=True):
    """Ends the stream here: another replica owns the turn, and has its live events."""

    endpoint: str


class EventFeed:
    """Reads a turn's events from this process if it owns the turn, else from the journal."""

    def __init__(
        self,
        database: Database,
        stream_of: Callable[[str], TurnStream | None],
        owner_of: Callable[[TurnInfo], str],
        clock: Clock,
    ) -> None:
        self._database = database
        self._owner_of = owner_of
        self._stream_of = stream_of
        self._clock = clock
        self._awaited: WeakValueDictionary[str, asyncio.Event] = WeakValueDictionary()
        """Wakes the watchers of a turn that is not owned here; exists as long as any of them waits.
        """

    def owned(self, turn_id: str) -> None:
        """Switch the watchers of a turn to its live events, which this process now has."""
        if (awaited := self._awaited.pop(turn_id, None)) is not None:
            awaited.set()

    async def wait_for_end(self, turn_id: str, profile: str) -> TurnFinished:
        """Return the end of a turn, on whichever replica."""
        last = 0
        while True:
            async with aclosing(self.watch(turn_id, profile, last)) as batches:
                async for batch in batches:
                    if not isinstance(batch, list):
                        break
                    last = max(last, *(item.sequence for item in batch))
                    if isinstance(finished := batch[-1].event, TurnFinished):
                        return finished
            await asyncio.sleep(LOOK_S)

    async def watch(
        self, turn_id: str, profile: str, after: int, pause_s: float = 0.0
    ) -> AsyncGenerator[list[Recorded] | OwnedElsewhere]:
        """Yield batches of events after a sequence, each durable event once.

        The last event is TurnFinished or OwnedElsewhere. `pause_s` is how long new text is merged.
        """
        last = after
        while True:
            stream = self._stream_of(turn_id)
            if stream is not None and stream.profile != profile:
                raise NotFound(f"there is no turn {turn_id}")
            is_over, owner = False, ""
            if stream is None:
                found, turn = await self._journaled(turn_id, profile, last)
                is_over, owner = turn.is_finished, self._owner_of(turn)
                if found:
                    yield found
                    last = found[-1].sequence
            else:
                async with aclosing(self._live(stream, last, pause_s)) as batches:
                    async for batch in batches:
                        yield batch
                        last = max(last, *(item.sequence for item in batch))
                        is_over = isinstance(batch[-1].event, TurnFinished)
            if is_over:
                return
            if owner:
                yield OwnedElsewhere(owner)
                return
            if stream is None:
                await self._until_owned(turn_id)

    async def turn(self, turn_id: str, profile: str) -> TurnInfo:
        return await self._database.read(lambda conn: turns.get(conn, turn_id, profile))

    async def _until_owned(self, turn_id: str) -> None:
        """Return once this process owns the turn, or when the journal is to be read again."""
        if self._stream_of(turn_id) is not None:
            return  # this process has got it since the journal was read
        awaited = self._awaited.setdefault(turn_id, asyncio.Event())
        await _wait(awaited, POLL_S)

    async def _live(
        self, stream: TurnStream, after: int, pause_s: float
    ) -> AsyncGenerator[list[Recorded]]:
        subscription = stream.subscribe(after, self._clock.now())
        try:
            async for batch in subscription.events(pause_s):
                yield batch
        finally:
            stream.unsubscribe(subscription)

    async def _journaled(
        self, turn_id: str, profile: str, after: int
    ) -> tuple[list[Recorded], TurnInfo]:
        return await self._database.read(
            lambda conn: (
                turns.events_after(conn, turn_id, after),
                turns.get(conn, turn_id, profile),
            )
        )
