"""The events of turns that this process owns, and who watches them."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from datetime import datetime

from msgspec.structs import replace

from agent_service.events import (
    Live,
    Notice,
    ReasoningDelta,
    Recorded,
    TextDelta,
    TextFinished,
    TextSnapshot,
    ToolFinished,
    ToolProgress,
)
from services.errors import HermesError

PROGRESS_KEPT_CHARS = 16_000
"""Of output that a watcher is slow to take or too late for, the last so many characters."""


class Subscription:
    """One watcher's queue; it stays small because live events that wait are merged."""

    def __init__(self, backlog: list[Recorded]) -> None:
        self._queue = deque(backlog)
        self._ready = asyncio.Event()
        self._closed = False
        self._error: HermesError | None = None
        if backlog:
            self._ready.set()

    def put(self, item: Recorded) -> None:
        """Add an event, merging it into the last one that waits where the two make one."""
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

    def close(self, error: HermesError | None = None) -> None:
        """Say that no more events will come from here, and why none will come from anywhere."""
        self._closed, self._error = True, error
        self._ready.set()

    async def events(self) -> AsyncGenerator[list[Recorded]]:
        """The events until the stream is closed, those that wait together; raises why it was."""
        while True:
            await self._ready.wait()
            self._ready.clear()
            while self._queue:
                waiting = list(self._queue)
                self._queue.clear()
                yield waiting
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
        """Why the turn can neither end nor go on by itself."""

    @property
    def partial_text(self) -> str:
        """What the running model call has said so far."""
        return self._partial.text

    def publish(self, item: Recorded) -> None:
        """Show an event to every watcher."""
        if item.sequence or isinstance(item.event, Notice):
            self._recorded.append(item)
        self._follow(item)
        for subscription in self._subscriptions:
            subscription.put(item)

    def void_partial(self, step: int) -> None:
        """Forget the text of a model call that is tried again."""
        self._partial = TextSnapshot(step=step, text="", reasoning="")

    def subscribe(self, after_sequence: int, now: datetime) -> Subscription:
        """Everything after the sequence, what running calls have said so far, then what comes.

        Notices that were shown before are for who has seen nothing of the turn yet.
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
        """Forget a watcher."""
        self._subscriptions.discard(subscription)

    def close(self) -> None:
        """End every subscription: the turn has ended, or is not owned here any more."""
        for subscription in self._subscriptions:
            subscription.close(self.failed)

    def _follow(self, item: Recorded) -> None:
        partial = self._partial
        match item.event:
            case TextDelta(step, offset, text):
                kept = partial.text if partial.step == step else ""
                reasoning = partial.reasoning if partial.step == step else ""
                self._partial = TextSnapshot(step, kept[:offset] + text, reasoning)
            case ReasoningDelta(step, offset, text):
                kept = partial.reasoning if partial.step == step else ""
                said = partial.text if partial.step == step else ""
                self._partial = TextSnapshot(step, said, kept[:offset] + text)
            case TextFinished():
                self._partial = TextSnapshot(step=0, text="", reasoning="")
            case ToolProgress(call_id, _):
                said = self._progress.get(call_id)
                self._progress[call_id] = item.event if said is None else _joined(said, item.event)
            case ToolFinished(call_id=call_id):
                self._progress.pop(call_id, None)
            case _:
                pass


def _merge(waiting: Recorded, item: Recorded) -> Recorded | None:
    if waiting.sequence or waiting.attempt != item.attempt:
        return None
    event = _merge_live(waiting.event, item.event)
    return None if event is None else replace(waiting, event=event)


def _merge_live(first: object, second: object) -> Live | None:
    match first, second:
        case TextDelta(step, offset, text), TextDelta(step2, offset2, text2):
            if step == step2 and offset + len(text) == offset2:
                return TextDelta(step, offset, text + text2)
        case ReasoningDelta(step, offset, text), ReasoningDelta(step2, offset2, text2):
            if step == step2 and offset + len(text) == offset2:
                return ReasoningDelta(step, offset, text + text2)
        case ToolProgress(call_id), ToolProgress(call_id2):
            if call_id == call_id2:
                return _joined(first, second)
        case _:
            pass
    return None


def _joined(first: ToolProgress, second: ToolProgress) -> ToolProgress:
    return ToolProgress(second.call_id, (first.text + second.text)[-PROGRESS_KEPT_CHARS:])
