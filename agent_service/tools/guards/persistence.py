"""Guards what outlasts a session that has read untrusted data: a person is asked.

A review has nobody to ask. It may keep what the user said and what their own files say. What it
would keep is screened, and compared with what others wrote.
"""

import asyncio
import json
import re
from collections.abc import Collection, Iterator, Sequence
from typing import Any, cast

from msgspec import Struct, field

from agent_service.records.requests import REVIEW
from agent_service.records.sandbox import Opening
from agent_service.storage.reviews import REFUSED
from agent_service.tools.base import A, Tool, ToolContext, ToolFailed, ToolResult, Wrapper
from agent_service.tools.guards.approval import binding_of, check_allowed, check_not_denied
from agent_service.tools.guards.taint import Screen, must_ask, sources, why_asked
from agent_service.tools.output import KEPT_RESULTS

_USERS_OWN = frozenset({str(Opening.FOLDER), str(Opening.MACHINE)})
_FENCED = re.compile(
    r"\[Untrusted data ([0-9a-f]{12}) from ([^\]\n]*)\]\n"
    r"(.*?)(?:\n\[End of untrusted data \1\]|\Z)",
    re.DOTALL,
)
_WORD = re.compile(r"\w+")
_ADDRESS = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+|\w+://[^\s\"'<>)\]]+")
_RUN = 3
"""So many words in a row are more than chance."""
_SHOWN_CHARS = 200
_NOT_SAID = {"action", "target", "name"}


class AskBeforeKeeping(Wrapper[A]):
    """A tool that saves something beyond the session."""

    def __init__(self, inner: Tool[A], noted_as: str, screen: Screen, *, asks: bool) -> None:
        super().__init__(inner)
        self._noted_as = noted_as
        self._screen = screen
        self._asks = asks

    async def run(self, arguments: A, context: ToolContext) -> ToolResult:
        """Run the inner tool, then note the call; a repeated call is noted again."""
        if self._asks:
            check_not_denied(context.decision)
            if await must_ask(context):
                await self._check(arguments, context)
        result = await self._inner.run(arguments, context)
        if not result.is_error:
            await context.state.put(self._noted_as, context.key)
        return result

    async def _check(self, arguments: A, context: ToolContext) -> None:
        if context.caller.origin.get("platform") != REVIEW:
            shown = arguments.model_dump_json(exclude_defaults=True) + await why_asked(context)
            await check_allowed(self.name, shown, binding_of(arguments), context)
            return
        text = "\n".join(_texts(arguments.model_dump(exclude=_NOT_SAID)))
        if why_not := await self._why_not(text, context):
            shown = " ".join(text.split())[:_SHOWN_CHARS]
            await context.state.add(REFUSED, f"“{shown}”: {why_not}")
            raise ToolFailed(
                f"This was not kept, since {why_not}, and nobody can be asked here. Keep only what "
                "the user said, or what you found out in their own files, in words of your own."
            )

    async def _why_not(self, text: str, context: ToolContext) -> str:
        _, threats = await self._screen.clean(text, context)
        if threats:
            return "it reads like an attack"
        strangers = {*await sources(context.state)} - _USERS_OWN
        if not strangers:
            return ""
        return await asyncio.to_thread(why_not, text, context.conversation, strangers)


class TextsByOrigin(Struct):
    """A conversation's text by its origin."""

    own: list[str] = field(default_factory=list[str])
    """The user's, and results of tools."""
    others: list[str] = field(default_factory=list[str])
    sources: list[str] = field(default_factory=list[str])
    """Where the others' came from."""

    def add(self, text: str, *, is_copy: bool) -> None:
        """Take in a message; a copy is the rest of a result that was too long."""
        at = 0
        for fence in _FENCED.finditer(text):
            self.own.append(text[at : fence.start()])
            at, source = fence.end(), fence[2].partition(": use it")[0]
            if source in _USERS_OWN and not is_copy:
                self.own.append(fence[3])
            else:
                self.others.append(fence[3])
                self.sources.append(source)
        self.own.append(text[at:])


def why_not(text: str, conversation: Sequence[bytes], strangers: Collection[str]) -> str:
    """Why a text may not be kept of a conversation that has read strangers; empty if it may."""
    said, copies = TextsByOrigin(), set[str]()
    for message in conversation:
        entry: dict[str, Any] = json.loads(message)
        for call in entry.get("tool_calls") or ():
            if KEPT_RESULTS in call["function"]["arguments"]:
                copies.add(call["id"])
        if entry["role"] in {"user", "tool"}:
            content = "\n".join(_texts(entry["content"]))
            said.add(content, is_copy=entry.get("tool_call_id") in copies)
    if gone := [one for one in sorted(strangers) if not any(one in each for each in said.sources)]:
        return f"what was read from {' and '.join(gone)} can no longer be compared with it"
    own, others = "\n".join(said.own), "\n".join(said.others)
    addresses = [one for one in _ADDRESS.findall(text) if one in others and one not in own]
    if addresses or _repeats(_words(text), _words(others), _words(own)):
        return f"it repeats what others wrote ({', '.join(sorted(strangers))})"
    return ""


def _repeats(words: Sequence[str], others: Sequence[str], own: Sequence[str]) -> bool:
    """Whether most of the words stand in runs that only others wrote."""
    length = min(_RUN, len(words))
    foreign = set(_runs(others, length)) - set(_runs(own, length))
    covered: set[int] = set()
    for at, run in enumerate(_runs(words, length)):
        if run in foreign:
            covered.update(range(at, at + length))
    return 2 * len(covered) > len(words)


def _runs(words: Sequence[str], length: int) -> Iterator[tuple[str, ...]]:
    return zip(*(words[at:] for at in range(length)), strict=False)


def _words(text: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(text)]


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from _texts(list(cast("dict[str, Any]", value).values()))
    elif isinstance(value, list | tuple):
        for each in cast("list[Any]", value):
            yield from _texts(each)
