"""Makes of what comes with a turn the message that the model gets: whose words are whose."""

import asyncio
from collections.abc import Sequence

from agent_service.prompt.chat import quoted_name
from agent_service.requests import Quote, Said, TurnRequest
from agent_service.security.threats import ThreatScanner
from agent_service.tools.taint import fenced, of_blocked

FORWARDED = "a forwarded message"
ANSWERED = "a message of somebody else"


def said(request: TurnRequest) -> Said:
    """The message, with the skills that it comes with and the words of others as screened."""
    name = quoted_name(request.speaker)
    own = f"[{name} writes:]\n{request.text}".rstrip() if name else request.text
    untrusted = {_source(quote) for quote in request.quotes}
    return Said(
        "\n\n".join(filter(None, (own, *request.loaded, *request.screened))),
        tuple(sorted(untrusted)),
    )


async def screened(quotes: Sequence[Quote], scanner: ThreatScanner) -> tuple[str, ...]:
    """Words of others without what looks like an attack, between marks made here and once."""
    return tuple([await asyncio.to_thread(_screened, quote, scanner) for quote in quotes])


def _screened(quote: Quote, scanner: ThreatScanner) -> str:
    lead = "[The user forwards this:]" if quote.is_forwarded else "[The user answers this:]"
    name = quoted_name(quote.author)
    text, threats = scanner.clean(f"{name} wrote:\n{quote.text}" if name else quote.text)
    parts = [lead, fenced(text, _source(quote))]
    return "\n".join([*parts, of_blocked(threats)] if threats else parts)


def _source(quote: Quote) -> str:
    return FORWARDED if quote.is_forwarded else ANSWERED
