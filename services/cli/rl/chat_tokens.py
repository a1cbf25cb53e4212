"""Conversations as tokens, with a mask of those that the model generated."""

from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any

from msgspec import Struct

from services.errors import InvalidArgument
from services.validation import json_object

MASKED = -100
NO_LOGPROB = 1.0
"""As Atropos has it where the model generated nothing."""

Message = Mapping[str, Any]


class Sample(Struct, frozen=True):
    """The tokens of a conversation."""

    tokens: Sequence[int]
    masks: Sequence[int]
    """The tokens that the model generated, and -100 elsewhere."""
    logprobs: Sequence[float] | None
    """Those of the generated tokens, and 1.0 elsewhere; None if not all are known."""


class _Answer(Struct, frozen=True):
    text: str
    tokens: Sequence[int]
    logprobs: Sequence[float]
    """Empty if they are not known."""


class ChatTokenizer:
    """Tokenizes conversations with the chat template of one of transformers' tokenizers."""

    def __init__(self, tokenizer: Any) -> None:
        if not tokenizer.chat_template:
            raise InvalidArgument("the tokenizer has no chat template; use that of a chat model")
        self._tokenizer = tokenizer

    def encode(self, conversation: Mapping[str, Any]) -> Sample:
        """Return the tokens of `messages` and `tools` in the format of the chat completions API."""
        text = self._render(conversation, len(conversation["messages"]))
        tokens, masks, logprobs = list[int](), list[int](), list[float]()
        at, are_known = 0, True
        for message, first, end in self._answers(conversation, text):
            prompt = self._tokens(text[at:first])
            answer = self._generated(message, text[first:end])
            tokens += [*prompt, *answer.tokens]
            masks += [*(MASKED for _ in prompt), *answer.tokens]
            logprobs += [*(NO_LOGPROB for _ in prompt), *answer.logprobs]
            are_known = are_known and len(answer.logprobs) == len(answer.tokens)
            at = first + len(answer.text)
        rest = self._tokens(text[at:])
        return Sample(
            [*tokens, *rest],
            [*masks, *(MASKED for _ in rest)],
            [*logprobs, *(NO_LOGPROB for _ in rest)] if are_known else None,
        )

    def _answers(
        self, conversation: Mapping[str, Any], text: str
    ) -> Iterator[tuple[Message, int, int]]:
        """Yield the model's messages, with where each begins and ends in the text."""
        for index, message in enumerate(conversation["messages"]):
            if message["role"] != "assistant":
                continue
            before = self._render(conversation, index, is_prompt=True)
            through = self._render(conversation, index + 1)
            eos: str = self._tokenizer.eos_token or ""
            stop = text.find(eos, len(before)) if eos else -1
            # Some templates write the last message in another way than those before it.
            ends = [stop + len(eos)] if stop >= 0 else []
            ends += [len(through)] if text.startswith(through) else []
            if not ends or not text.startswith(before):
                raise InvalidArgument(
                    "the tokenizer's chat template changes earlier messages when more follow, so "
                    "its tokens are not what the model saw; use another template"
                )
            names = [call["function"]["name"] for call in message.get("tool_calls", ())]
            if any(name not in text[len(before) : min(ends)] for name in names):
                raise InvalidArgument("the tokenizer's chat template leaves out tool calls")
            yield message, len(before), min(ends)

    def _render(
        self, conversation: Mapping[str, Any], count: int, *, is_prompt: bool = False
    ) -> str:
        try:
            return self._tokenizer.apply_chat_template(
                [_templated(message) for message in conversation["messages"][:count]],
                tools=conversation.get("tools") or None,
                tokenize=False,
                add_generation_prompt=is_prompt,
            )
        except import_module("jinja2").TemplateError as error:
            raise InvalidArgument(f"the tokenizer's chat template fails: {error}") from None

    def _generated(self, message: Message, text: str) -> _Answer:
        """Return an answer with the tokens that the server generated, if they are known.

        They may be others than the usual ones of the text, and lack the last one if it was cut.
        """
        usual, found = self._tokens(text), message.get("logprobs", {})
        kept: Sequence[Any] = found.get("content", ())
        ids = [each.get("id") for each in kept]
        full = "".join(each["token"] for each in kept)
        if None in ids:
            ids = usual[: len(ids)]
        else:
            full = self._tokenizer.decode(ids, skip_special_tokens=False)
        if kept and len(ids) == len(kept) and text in (full, f"{full}{self._tokenizer.eos_token}"):
            return _Answer(full, ids, [each["logprob"] for each in kept])
        return _Answer(text, usual, ())

    def _tokens(self, text: str) -> Sequence[int]:
        return self._tokenizer(text, add_special_tokens=False)["input_ids"]


def _templated(message: Message) -> Message:
    """Return a message as templates take it, with arguments that are no JSON text."""
    made = {key: value for key, value in message.items() if key != "logprobs"}
    if calls := message.get("tool_calls"):
        made["tool_calls"] = [{**call, "function": _decoded(call["function"])} for call in calls]
    return made


def _decoded(function: Mapping[str, Any]) -> Mapping[str, Any]:
    arguments = json_object(function["arguments"])
    return function if arguments is None else {**function, "arguments": arguments}
