"""A request is stored and shown without secrets, and is the same request when it comes again."""

from agent_service.records.requests import (
    PrefillMessage,
    Quote,
    RequestOverlays,
    Script,
    ScriptMode,
    SessionOptions,
    TurnRequest,
)
from agent_service.security.threats import ThreatScanner
from agent_service.turns.message_assembly import Screening
from services.home.project_notes import NotesAbove
from services.redaction.redactor import MASK, Redactor

KNOWN = "canary.api.key.Zq8vTr2nWx5Lp0Gs"
SCREENING = Screening(ThreatScanner(), Redactor([KNOWN]))


def request(text: str, **more: object) -> TurnRequest:
    values = {
        "turn_id": "trn_1",
        "profile": "default",
        "session_id": "s",
        "text": text,
        "origin": {"platform": "cli"},
        "kind": "user",
        **more,
    }
    return TurnRequest(**values)  # pyright: ignore[reportArgumentType]


async def test_every_text_of_a_request_is_without_secrets() -> None:
    asked = request(
        f"use {KNOWN}",
        quotes=(Quote(f"they said {KNOWN}", "Eve", is_forwarded=True),),
        new_session=SessionOptions(
            system_message=KNOWN,
            overlays=RequestOverlays(KNOWN, (PrefillMessage("user", KNOWN),)),
            context_file=NotesAbove("../HERMES.md", KNOWN),
        ),
        script=Script(f"echo {KNOWN}; psql postgres://a:b1@c/d", ScriptMode.GATE),
        loaded=(f"skill with {KNOWN}",),
    )
    clean = await SCREENING.screen(asked)
    assert KNOWN not in repr(clean)
    assert clean.text == f"use {MASK}"
    assert clean.script is not None
    assert clean.script.text == f"echo {MASK}; psql postgres://a:b1@c/d"
    assert MASK in clean.screened[0]


async def test_a_request_with_a_secret_is_the_same_when_it_comes_again() -> None:
    asked, other = request(f"use {KNOWN}"), request(f"use {MASK}")
    clean = await SCREENING.screen(asked)
    assert clean.digest() == asked.digest()
    # By then more is known to be secret.
    later = Screening(ThreatScanner(), Redactor([KNOWN, "use canary"]))
    assert (await later.screen(asked)).digest() == asked.digest()
    assert clean.digest() != (await SCREENING.screen(other)).digest() == other.digest()


async def test_an_ordinary_request_passes_as_it_is() -> None:
    asked = request("What is the capital of France?")
    assert await SCREENING.screen(asked) is asked
