"""Makes of what comes with a turn the message that the model gets: whose words are whose."""

from agent_service.prompt.chat import quoted_name
from agent_service.requests import Quote, Said, TurnRequest
from agent_service.tools.taint import fenced

FORWARDED = "a forwarded message"
ANSWERED = "a message of somebody else"


def said(request: TurnRequest) -> Said:
    """The message, with the words of others between marks that are made here and once."""
    name = quoted_name(request.speaker)
    own = f"[{name} writes:]\n{request.text}".rstrip() if name else request.text
    parts = [own, *map(_fenced, request.quotes)]
    untrusted = {_source(quote) for quote in request.quotes}
    return Said("\n\n".join(filter(None, parts)), tuple(sorted(untrusted)))


def _fenced(quote: Quote) -> str:
    lead = "[The user forwards this:]" if quote.is_forwarded else "[The user answers this:]"
    name = quoted_name(quote.author)
    text = f"{name} wrote:\n{quote.text}" if name else quote.text
    return f"{lead}\n{fenced(text, _source(quote))}"


def _source(quote: Quote) -> str:
    return FORWARDED if quote.is_forwarded else ANSWERED
