"""Fits trajectories into a number of tokens, without parting calls from their results."""

from collections.abc import Callable, Iterator, Sequence

import msgspec
from msgspec import Struct

from services.amounts import plural
from services.home.trajectories.sharegpt import Turn, sharegpt_turns
from services.home.trajectories.tokenizer import TokenCounter
from services.home.trajectories.trajectory import Message, Trajectory

TOKENS_PER_TURN = 4
"""What chat templates add to a turn, at most."""
KEPT_CHARS = 300
"""What stays of each end of a shortened result."""


class _Step(Struct, frozen=True):
    turns: Sequence[Turn]
    cost: int


class Compressor:
    """Shortens the results of tools in the middle, then leaves out the oldest steps there.

    The system prompt, the first message of a person and the last step stay.
    """

    def __init__(self, counter: TokenCounter, max_tokens: int) -> None:
        self._counter = counter
        self._max_tokens = max_tokens

    def fit_all(self, trajectories: Sequence[Trajectory]) -> Iterator[Trajectory | None]:
        """Yield each trajectory so that its ShareGPT turns fit; None where they cannot."""
        steps = [self._large_steps(list(sharegpt_turns(each))) for each in trajectories]
        values = (turn.value for each in steps for step in each for turn in step)
        counts = self._counter.count(values)
        for trajectory, each in zip(trajectories, steps, strict=True):
            found = [_Step(step, _cost(step, counts.__getitem__)) for step in each]
            yield self._fit(trajectory, found) if found else trajectory

    def _large_steps(self, turns: Sequence[Turn]) -> Sequence[Sequence[Turn]]:
        """Return the steps to count; none of a trajectory that fits without counting."""
        if _cost(turns, self._counter.most) <= self._max_tokens:
            return ()
        head, *steps = _steps(turns)
        least = self._counter.least
        excess = _cost(turns, least) - self._max_tokens
        for at, step in enumerate(steps):
            if excess > 0:  # whatever the counts are
                steps[at] = _shortened(step)
                excess -= _cost(step, least) - _cost(steps[at], least)
        return (head, *steps)

    def _fit(self, trajectory: Trajectory, found: Sequence[_Step]) -> Trajectory | None:
        head, *steps = found
        excess = sum(step.cost for step in found) - self._max_tokens
        for at, step in enumerate(steps):
            if excess > 0:
                steps[at] = self._measured(_shortened(step.turns))
                excess -= step.cost - steps[at].cost
        marked, left_out = head, 0
        while excess > 0 and len(steps) > 1:
            dropped = steps.pop(0)
            left_out += sum(len(turn.messages) for turn in dropped.turns)
            excess -= dropped.cost + marked.cost
            marked = self._measured(_mark(head.turns, left_out))
            excess += marked.cost
        if excess > 0:
            return None
        kept = [turn for step in (marked, *steps) for turn in step.turns]
        messages = [message for turn in kept for message in turn.messages]
        return msgspec.structs.replace(trajectory, messages=messages)

    def _measured(self, turns: Sequence[Turn]) -> _Step:
        counts = self._counter.count(turn.value for turn in turns)
        return _Step(turns, _cost(turns, counts.__getitem__))


def _cost(turns: Sequence[Turn], count: Callable[[str], int]) -> int:
    return sum(count(turn.value) + TOKENS_PER_TURN for turn in turns)


def _shortened(turns: Sequence[Turn]) -> Sequence[Turn]:
    before = [message for turn in turns for message in turn.messages]
    messages = [_short(message) for message in before]
    if messages == before:
        return turns
    _, *short = sharegpt_turns(Trajectory("", "", messages, "", "", completed=True))
    return short


def _steps(turns: Sequence[Turn]) -> Iterator[Sequence[Turn]]:
    """Yield the beginning up to what a person asked, then each turn with the results after it."""
    speakers = [turn.speaker for turn in turns]
    begin = speakers.index("human") + 1 if "human" in speakers else 1
    yield turns[:begin]
    while begin < len(turns):
        end = begin + 1
        while end < len(turns) and speakers[end] == "tool":
            end += 1
        yield turns[begin:end]
        begin = end


def _short(message: Message) -> Message:
    left_out = len(message.text) - 2 * KEPT_CHARS
    if message.role != "tool" or left_out <= KEPT_CHARS:
        return message
    note = f"\n[{left_out:,} characters are left out here]\n"
    text = f"{message.text[:KEPT_CHARS]}{note}{message.text[-KEPT_CHARS:]}"
    return msgspec.structs.replace(message, text=text)


def _mark(head: Sequence[Turn], left_out: int) -> Sequence[Turn]:
    """Say at the end of the head what is left out, so that speakers still alternate."""
    *before, asked = head
    if not asked.messages:
        return head
    note = f"{plural(left_out, 'message is', 'messages are')} left out here"
    value = f"{asked.value}\n\n[{note}]"
    message = msgspec.structs.replace(asked.messages[-1], text=value)
    return [*before, Turn(asked.speaker, value, (message,))]
