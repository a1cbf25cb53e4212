"""Which trajectories are worth training with."""

import re
from collections.abc import Callable, Mapping
from hashlib import blake2b

from services.home.trajectories.trajectory import Message, Trajectory

_REFUSAL = re.compile(
    r"\W*(?:(?:i'm |i am )?(?:very |really )?sorry\b|unfortunately|i apologi[sz]e|as an ai\b)?"
    r".{0,40}?\bi(?: can'?t|'m unable to| cannot| can not| am unable to| won't| will not|"
    r" must decline|'m not able to| am not able to)\b",
    re.IGNORECASE | re.DOTALL,
)
_APOSTROPHE = "\u2019"
_POLICY = "content_policy"


def has_no_reasoning(trajectory: Trajectory) -> bool:
    """Whether the model has thought nowhere before it spoke."""
    return not any(message.reasoning.strip() for message in trajectory.messages)


def is_refused(trajectory: Trajectory) -> bool:
    """Whether the model declined without using a tool, or its provider did."""
    if _POLICY in trajectory.facts.finish_reason:
        return True
    answers = [message for message in trajectory.messages if message.role == "assistant"]
    called = any(message.calls for message in answers)
    return bool(answers) and not called and _REFUSAL.match(_plain(answers[-1].text)) is not None


def _plain(text: str) -> str:
    return text[:200].replace(_APOSTROPHE, "'")


def is_cut(trajectory: Trajectory) -> bool:
    """Whether it ends without an answer, or with calls that have no result."""
    messages = trajectory.messages
    if not messages or messages[-1].role != "assistant" or messages[-1].calls:
        return True
    answered = {message.call_id for message in messages if message.role == "tool"}
    asked = {call.id for message in messages for call in message.calls}
    return not asked <= answered or not messages[-1].text.strip()


FILTERS: Mapping[str, Callable[[Trajectory], bool]] = {
    "no-reasoning": has_no_reasoning,
    "refused": is_refused,
    "cut": is_cut,
}
"""What may be left out, by name."""


def fingerprint(trajectory: Trajectory) -> bytes:
    """Return a hash that ignores white space, letter case, call ids and the system prompt."""
    # System prompts differ by the day and the session.
    said = "\0".join(part for message in trajectory.messages for part in _essence(message))
    return blake2b(said.encode(errors="replace"), digest_size=16).digest()


def _essence(message: Message) -> list[str]:
    calls = [text for call in message.calls for text in (call.name, call.arguments)]
    return [message.role, " ".join(message.text.casefold().split()), *calls]
