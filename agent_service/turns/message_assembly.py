"""Builds the model's message from a request, and marks whose words are whose."""

import asyncio
from collections.abc import Callable
from itertools import chain

from msgspec import Struct
from msgspec.structs import replace

from agent_service.records.requests import (
    ANSWERED,
    FORWARDED,
    FROM_FILE,
    OUTPUT,
    Quote,
    RequestOverlays,
    SessionOptions,
    TurnRequest,
    quoted_name,
    source_of,
)
from agent_service.security.threats import Source, ThreatScanner
from agent_service.tools.guards.taint import screened
from services.redaction.redactor import Redactor

_AT_ONCE_CHARS = 20_000

_LEADS = {
    FORWARDED: "[The user forwards this:]",
    ANSWERED: "[The user answers this:]",
    OUTPUT: "[Another job came to this last; it is for you to use:]",
}


class Screening(Struct, frozen=True):
    """Removes secrets and attacks from requests."""

    scanner: ThreatScanner
    redactor: Redactor

    async def screen(self, request: TurnRequest) -> TurnRequest:
        """Return the request without secrets, with words of others as the model sees them.

        They are screened for attacks, and put between marks that are made here, once.
        """
        # Long texts would block the event loop.
        is_long = request.new_session.context_file is not None or len(request.text) > _AT_ONCE_CHARS
        look = without_secrets, request, self.redactor
        clean = await asyncio.to_thread(*look) if is_long else without_secrets(*look[1:])
        if not clean.quotes:
            return clean
        shown = [await asyncio.to_thread(_screened, each, self.scanner) for each in clean.quotes]
        return replace(
            clean,
            screened=tuple(text for text, _ in shown),
            notices=tuple(chain.from_iterable(notices for _, notices in shown)),
        )

    async def screen_file(self, text: str) -> tuple[str, tuple[str, ...]]:
        text = await asyncio.to_thread(self.redactor.redact, text)
        clean, threats = await asyncio.to_thread(self.scanner.clean, text, Source.QUOTE)
        return screened(clean, threats, FROM_FILE)


def without_secrets(request: TurnRequest, redactor: Redactor) -> TurnRequest:
    """Remove all secrets from a request; its digest stays that of the original."""
    redact, script = redactor.redact, request.script
    clean = replace(
        request,
        text=redact(request.text),
        quotes=tuple(replace(each, text=redact(each.text)) for each in request.quotes),
        new_session=_redacted(request.new_session, redact),
        script=script and replace(script, text=redactor.redact_program(script.text)),
        loaded=tuple(map(redact, request.loaded)),
    )
    return request if clean == request else replace(clean, asked=request.digest())


def _redacted(begun: SessionOptions, redact: Callable[[str], str]) -> SessionOptions:
    overlays, notes = begun.overlays, begun.context_file
    prefill = tuple(replace(each, text=redact(each.text)) for each in overlays.prefill_messages)
    instructions = redact(overlays.ephemeral_system_prompt)
    return replace(
        begun,
        system_message=redact(begun.system_message),
        overlays=RequestOverlays(instructions, prefill),
        context_file=notes and replace(notes, text=redact(notes.text)),
    )


def _screened(quote: Quote, scanner: ThreatScanner) -> tuple[str, tuple[str, ...]]:
    name = quoted_name(quote.author)
    wrote = f"{name} {'came to' if quote.is_output else 'wrote'}:\n" if name else ""
    text, threats = scanner.clean(f"{wrote}{quote.text}", Source.QUOTE)
    source = source_of(quote)
    shown, notices = screened(text, threats, source)
    return f"{_LEADS[source]}\n{shown}", notices
