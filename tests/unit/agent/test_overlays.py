"""What is sent beside a session's prompt, and which personalities there are."""

import json

import pytest

from agent_service.records.model import encoded
from agent_service.records.overlays import BUILT_IN, NOTHING, Overlay, OverlayMessage, Personalities
from services.errors import InvalidArgument

MESSAGES = [
    encoded({"role": "system", "content": "Prompt."}),
    encoded({"role": "user", "content": "hi"}),
]


def test_without_anything_the_conversation_is_sent_as_it_is() -> None:
    assert NOTHING.apply(MESSAGES) is MESSAGES
    assert Overlay.from_state(None) == Overlay.from_state({}) == NOTHING


def test_the_prompt_comes_first_and_unchanged() -> None:
    overlay = Overlay(
        ("Be brief.",), (OverlayMessage("user", "a"), OverlayMessage("assistant", "½ “b”"))
    )
    overlay = overlay.with_personality("pirate", "Talk like a pirate.")
    assert Overlay.from_state(json.loads(json.dumps(overlay.stored()))) == overlay
    assert [json.loads(message) for message in overlay.apply(MESSAGES)] == [
        {"role": "system", "content": "Prompt.\n\nBe brief.\n\nTalk like a pirate."},
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": "½ “b”"},
        {"role": "user", "content": "hi"},
    ]
    assert overlay.apply(MESSAGES) == overlay.apply(MESSAGES)
    assert json.loads(MESSAGES[0])["content"] == "Prompt."


def test_what_is_configured_comes_before_our_own() -> None:
    found = Personalities({"pirate": "Arr.", "mine": "Mine."})
    assert found.find(" Pirate ").prompt == "Arr."
    assert {one.name for one in found.all()} == {*BUILT_IN, "mine"}
    assert [one.name for one in found.all() if not one.is_built_in] == ["mine", "pirate"]
    with pytest.raises(InvalidArgument, match="mine"):
        found.find("mime")
