"""Conversations as tokens, with a mask of those that the model generated."""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
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


class ChatTokenizer:
    """Tokenizes conversations with the chat template of one of transformers' tokenizers."""

    def __init__(self, tokenizer: Any) -> None:
        if not tokenizer.chat_template:
            raise InvalidArgument("the tokenizer has no chat template; take that of a chat model")
        if not tokenizer.is_fast:
            raise InvalidArgument("the tokenizer has no tokenizer.json; take one that has")
        self._tokenizer = tokenizer

    def encode(self, conversation: Mapping[str, Any]) -> Sample:
        """Return the tokens of `messages` and `tools` in the format of the chat completions API."""
        messages: Sequence[Message] = conversation["messages"]
        text = self._render(conversation, len(messages))
        coded = self._tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        tokens: Sequence[int] = coded["input_ids"]
        starts = [start for start, _ in coded["offset_mapping"]]
        masks, logprobs = [MASKED] * len(tokens), [NO_LOGPROB] * len(tokens)
        are_known = True
        for message, first, end in self._answers(conversation, text):
            place = slice(bisect_left(starts, first), bisect_left(starts, end))
            known = self._logprobs(message, tokens[place])
            if known is None:
                are_known = False
            else:
                place = slice(place.start, place.start + len(known))
                logprobs[place] = known
            masks[place] = tokens[place]
        return Sample(tokens, masks, logprobs if are_known else None)

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
                    "no tokens are what the model saw; take another template"
                )
            names = [call["function"]["name"] for call in message.get("tool_calls", ())]
            if any(name not in text[len(before) : min(ends)] for name in names):
                raise InvalidArgument("the tokenizer's chat template leaves out calls of tools")
            yield message, len(before), min(ends)

    def _render(
        self, conversation: Mapping[str, Any], count: int, *, is_prompt: bool = False
    ) -> str:
        return self._tokenizer.apply_chat_template(
            [_templated(message) for message in conversation["messages"][:count]],
            tools=conversation.get("tools") or None,
            tokenize=False,
            add_generation_prompt=is_prompt,
        )

    def _logprobs(self, message: Message, tokens: Sequence[int]) -> list[float] | None:
        """Return the logprobs that the server gave if it generated just these tokens.

        The last token may lack one: a server that cut the answer has not generated it.
        """
        found: Any = message.get("logprobs") or {}
        kept: Sequence[Any] = found.get("content") or ()
        fits = len(tokens) - len(kept) in (0, 1) and all(map(self._is, kept, tokens))
        return [each["logprob"] for each in kept] if fits else None

    def _is(self, kept: Mapping[str, Any], token: int) -> bool:
        if kept.get("id") is not None:
            return kept["id"] == token
        return kept["token"] == self._tokenizer.decode([token])


def _templated(message: Message) -> Message:
    """Return a message as templates take it, with arguments that are no JSON text."""
    made = {key: value for key, value in message.items() if key != "logprobs"}
    if calls := message.get("tool_calls"):
        made["tool_calls"] = [{**call, "function": _decoded(call["function"])} for call in calls]
    return made


def _decoded(function: Mapping[str, Any]) -> Mapping[str, Any]:
    arguments = json_object(function["arguments"])
    return function if arguments is None else {**function, "arguments": arguments}
