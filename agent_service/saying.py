"""Makes of what comes with a turn the message that the model gets: whose words are whose."""

import asyncio
from collections.abc import Sequence

from agent_service.prompt.chat import quoted_name
from agent_service.requests import Quote, Said, TurnRequest
from agent_service.security.threats import Source, ThreatScanner
from agent_service.tools.taint import fenced, of_blocked

FORWARDED = "a forwarded message"
ANSWERED = "a message of somebody else"
OUTPUT = "what another job came to"
_LEADS = {
    FORWARDED: "[The user forwards this:]",
    ANSWERED: "[The user answers this:]",
    OUTPUT: "[Another job came to this last; it is for you to use:]",
}


def said(request: TurnRequest) -> Said:
    """The message, with the skills that it comes with and the words of others as screened."""
    name = quoted_name(request.speaker)
    own = f"[{name} writes:]\n{request.text}".rstrip() if name else request.text
    untrusted = {*request.untrusted, *map(_source, request.quotes)}
    return Said(
        "\n\n".join(filter(None, (own, *request.loaded, *request.screened))),
        tuple(sorted(untrusted)),
    )


async def screened(quotes: Sequence[Quote], scanner: ThreatScanner) -> tuple[str, ...]:
    """Words of others without what looks like an attack, between marks made here and once."""
    return tuple([await asyncio.to_thread(_screened, quote, scanner) for quote in quotes])


def _screened(quote: Quote, scanner: ThreatScanner) -> str:
    name = quoted_name(quote.author)
    wrote = f"{name} {'came to' if quote.is_output else 'wrote'}:\n" if name else ""
    text, threats = scanner.clean(f"{wrote}{quote.text}", Source.QUOTE)
    parts = [_LEADS[_source(quote)], fenced(text, _source(quote))]
    return "\n".join([*parts, of_blocked(threats)] if threats else parts)


def _source(quote: Quote) -> str:
    if quote.is_output:
        return OUTPUT
    return FORWARDED if quote.is_forwarded else ANSWERED
