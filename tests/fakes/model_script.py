"""Scripts for a model that needs no model: which request gets which answer.

A script is a YAML or JSON file:

    models: [scripted]              # what /v1/models lists
    window: 8192                    # and their tokens of context there (none)
    rules:                          # the first whose `user` is found in the last user text
      - user: "disk|space"          # a regular expression; a rule without one takes any text
        steps:                      # one per model call that the turn makes
          - tool_calls: [{name: terminal, arguments: {command: df -h}}]
          - text: "It printed:\\n{tool_result}"

A step that is a list answers repeated requests in turn, the last for all that follow: an
error first and success after it, for example. The fields of an answer are those of `Reply`.
`{ref:button "Send"}` as an argument stands for the reference of the element that the turn's last
snapshot of a browser describes like this.
"""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, cast

from msgspec import Meta, Struct, convert, field
from msgspec.structs import replace
from ruamel.yaml import YAML

Json = Mapping[str, Any]
_REF = re.compile(r"\{ref:(.+)\}")


class ScriptError(ValueError):
    """A script that has no answer to a request."""


class ScriptedCall(Struct, frozen=True, forbid_unknown_fields=True):
    """A tool call; `arguments` that are a string are sent as they are, also if malformed."""

    name: str
    arguments: Any = field(default_factory=dict[str, Any])
    id: str = ""

    @property
    def arguments_text(self) -> str:
        """The arguments as the model would write them."""
        return self.arguments if isinstance(self.arguments, str) else json.dumps(self.arguments)


class Reply(Struct, frozen=True, forbid_unknown_fields=True):
    """One answer. `{user}` and `{tool_result}` in `text` stand for the last such message.

    `chunk_chars` cuts text, reasoning and arguments into pieces of that size (0: whole);
    `latency_s` passes before the response begins and `chunk_delay_s` before each chunk.
    With `status` other than 200 the body is `error`. After `cut_after` chunks the
    connection is closed, after `hang_after` nothing more comes. `raw` replaces all chunks
    by the given data lines.
    """

    text: str = ""
    reasoning: str = ""
    reasoning_field: str = "reasoning"
    tool_calls: tuple[ScriptedCall, ...] = ()
    usage: Json | None = None
    finish_reason: str = ""
    chunk_chars: int = 0
    latency_s: float = 0.0
    chunk_delay_s: float = 0.0
    status: int = 200
    error: Any = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    cut_after: int | None = None
    hang_after: int | None = None
    raw: tuple[str, ...] | None = None


class _Rule(Struct, forbid_unknown_fields=True):
    steps: Annotated[Sequence[Reply | Sequence[Reply]], Meta(min_length=1)]
    user: str = ""
    used: dict[int, int] = field(default_factory=dict[int, int])
    """How often each step has answered."""

    def next(self, step: int) -> Reply:
        """The next answer of a step; raises `ScriptError` where there is none."""
        if step >= len(self.steps):
            raise ScriptError(f"the rule for this text has no step {step + 1}")
        found = self.steps[step]
        replies = [found] if isinstance(found, Reply) else found
        self.used[step] = self.used.get(step, 0) + 1
        return replies[min(self.used[step], len(replies)) - 1]


class Conversation(Struct, frozen=True):
    """What a script looks at in a request; `step` counts the turn's earlier model calls."""

    user: str
    tool_result: str
    step: int
    results: Sequence[str] = ()
    """The turn's tool results, newest first."""

    @staticmethod
    def of(messages: Sequence[Json]) -> "Conversation":
        """Read the last turn of a request's messages."""
        results, step = list[str](), 0
        for message in reversed(messages):
            role = message.get("role")
            if role == "user":
                found = next(filter(None, results), "")
                return Conversation(_content(message), found, step, results)
            if role == "tool":
                results.append(_content(message))
            elif role == "assistant":
                step += 1
        return Conversation("", next(filter(None, results), ""), step, results)


class Script(Struct, forbid_unknown_fields=True):
    """Rules from requests to answers."""

    rules: Annotated[Sequence[_Rule], Meta(min_length=1)]
    models: Sequence[str] = ("scripted",)
    window: int = 0

    @staticmethod
    def parse(document: object) -> "Script":
        """Check a loaded script; raises `ValidationError`."""
        return convert(document, Script)

    @staticmethod
    def load(path: Path) -> "Script":
        """Read a script from a file."""
        return Script.parse(YAML(typ="safe").load(path.read_text(encoding="utf-8")))

    def reply_to(self, conversation: Conversation) -> Reply:
        """Return the next answer for a request; raises `ScriptError` where there is none."""
        for rule in self.rules:
            if re.search(rule.user, conversation.user, re.IGNORECASE):
                return _filled_in(rule.next(conversation.step), conversation.results)
        raise ScriptError("no rule matches the last user text")


def _filled_in(reply: Reply, results: Sequence[str]) -> Reply:
    """Return an answer with the references of elements."""
    calls = list[ScriptedCall]()
    for call in reply.tool_calls:
        if isinstance(call.arguments, dict):
            given = cast("dict[str, Any]", call.arguments)
            filled = {name: _referred(value, results) for name, value in given.items()}
            calls.append(replace(call, arguments=filled))
        else:
            calls.append(call)
    return replace(reply, tool_calls=tuple(calls))


def _referred(value: Any, results: Sequence[str]) -> Any:
    if not isinstance(value, str) or (asked := _REF.fullmatch(value)) is None:
        return value
    pattern = re.compile(rf"{re.escape(asked[1])}.*?\[ref=(\w+)\]")
    found = next(filter(None, map(pattern.search, results)), None)
    if found is None:
        raise ScriptError(f"no snapshot has {asked[1]}")
    return found[1]


def _content(message: Json) -> str:
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "") for part in cast("Sequence[Json]", content))
