"""Messages that are empty, very long or written to mislead, and what is said after them."""

from collections.abc import Sequence
from pathlib import Path

from gateway_service.turns.router import UNREADABLE
from tests.fakes.model import answers
from tests.integration.test_gateway_telegram import bot

ANSWER = "Understood."
LONG = "A sentence of a very long message. " * 3_000
MESSAGES: Sequence[tuple[str, Sequence[str]]] = (
    ("", []),  # the server's own, such as somebody who has joined
    (" \n\t", [UNREADABLE]),
    ("\u200b\u2060\ufeff", [ANSWER]),
    ("\u202eevil\u2066 \u2069text\u202c", [ANSWER]),
    ("a\0b\x1b[2J", [ANSWER]),
    ("e" + "\u0301" * 5_000, [ANSWER]),
    (LONG, [ANSWER]),
    ("/" * 100_000, [ANSWER]),
    ("[](" * 30_000, [ANSWER]),
)


async def test_each_is_answered_and_so_is_the_next(tmp_path: Path) -> None:
    async with bot(tmp_path, answers({"text": ANSWER})) as (telegram, _):

        def shown() -> Sequence[Sequence[str]]:
            return [telegram.texts(chat) for chat, _ in enumerate(MESSAGES, 1)]

        answered = [wanted for _, wanted in MESSAGES]
        for chat, (text, _) in enumerate(MESSAGES, 1):
            await telegram.say(chat, text)
        await telegram.until(lambda: shown() == answered)
        for chat, _ in enumerate(MESSAGES, 1):
            await telegram.say(chat, "and on")
        wanted = [[*each, ANSWER] for each in answered]
        await telegram.until(lambda: shown() == wanted)
        assert shown() == wanted
