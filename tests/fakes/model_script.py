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
from typing import Any, cast

from msgspec import Struct, field
from msgspec.structs import replace
from ruamel.yaml import YAML

Json = Mapping[str, Any]
_REF = re.compile(r"\{ref:(.+)\}")


class ScriptError(ValueError):
    """A script that does not make sense, or that has no answer to a request."""


class ScriptedCall(Struct, frozen=True):
    """A tool call; `arguments` that are a string are sent as they are, also if malformed."""

    name: str
    arguments: Any = field(default_factory=dict[str, Any])
    id: str = ""

    @property
    def arguments_text(self) -> str:
        """The arguments as the model would write them."""
        return self.arguments if isinstance(self.arguments, str) else json.dumps(self.arguments)


class Reply(Struct, frozen=True):
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


class _Step(Struct):
    replies: Sequence[Reply]
    used: int = 0

    def next(self) -> Reply:
        reply = self.replies[min(self.used, len(self.replies) - 1)]
        self.used += 1
        return reply


class _Rule(Struct, frozen=True):
    user: re.Pattern[str] | None
    steps: Sequence[_Step]


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


class Script:
    """Rules from requests to answers."""

    def __init__(self, models: Sequence[str], rules: Sequence[_Rule], window: int = 0) -> None:
        self.models = tuple(models)
        self.window = window
        self._rules = tuple(rules)

    @staticmethod
    def parse(document: object) -> "Script":
        """Check a loaded script; raises `ScriptError`."""
        fields = _mapping(document, "a script")
        _check_keys(fields, {"models", "rules", "window"}, "a script")
        rules = fields.get("rules")
        if not isinstance(rules, list) or not rules:
            raise ScriptError("a script needs at least one rule")
        found = [_rule(rule) for rule in cast("list[object]", rules)]
        return Script(fields.get("models") or ["scripted"], found, fields.get("window", 0))

    @staticmethod
    def load(path: Path) -> "Script":
        """Read a script from a file."""
        return Script.parse(YAML(typ="safe").load(path.read_text(encoding="utf-8")))

    def reply_to(self, conversation: Conversation) -> Reply:
        """Return the next answer for a request; raises `ScriptError` where there is none."""
        for rule in self._rules:
            if rule.user is None or rule.user.search(conversation.user):
                if conversation.step < len(rule.steps):
                    return _filled_in(rule.steps[conversation.step].next(), conversation.results)
                raise ScriptError(f"the rule for this text has no step {conversation.step + 1}")
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


def _rule(document: object) -> _Rule:
    fields = _mapping(document, "a rule")
    _check_keys(fields, {"user", "steps"}, "a rule")
    steps = fields.get("steps")
    if not isinstance(steps, list) or not steps:
        raise ScriptError("a rule needs at least one step")
    pattern = fields.get("user")
    return _Rule(
        user=re.compile(pattern, re.IGNORECASE) if pattern else None,
        steps=[_step(step) for step in cast("list[object]", steps)],
    )


def _step(document: object) -> _Step:
    replies = cast("list[object]", document) if isinstance(document, list) else [document]
    return _Step([_reply(reply) for reply in replies])


def _reply(document: object) -> Reply:
    fields = dict(_mapping(document, "an answer"))
    _check_keys(fields, set(Reply.__struct_fields__), "an answer")
    calls = [_mapping(call, "a tool call") for call in fields.pop("tool_calls", ())]
    for call in calls:
        _check_keys(call, set(ScriptedCall.__struct_fields__), "a tool call")
    if fields.get("raw") is not None:
        fields["raw"] = tuple(fields["raw"])
    return Reply(**fields, tool_calls=tuple(ScriptedCall(**call) for call in calls))


def _mapping(document: object, what: str) -> Json:
    if not isinstance(document, dict):
        raise ScriptError(f"{what} must be a mapping, not {document!r}")
    return cast("Json", document)


def _check_keys(fields: Json, known: set[str], what: str) -> None:
    unknown = sorted(set(fields) - known)
    if unknown:
        raise ScriptError(f"{what} has no field {', '.join(unknown)}")


def _content(message: Json) -> str:
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "") for part in cast("Sequence[Json]", content))
