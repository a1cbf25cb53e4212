"""Conversations through the gateway with the real agent, over a real socket."""

from pathlib import Path

from tests.fakes.model import answers, fake_model
from tests.integration.gateway_parts import client, hermes


async def test_a_message_is_answered(tmp_path: Path) -> None:
    async with (
        fake_model(answers({"text": "Hello!"})) as model,
        hermes(tmp_path, model.url) as running,
        client(running) as talking,
    ):
        assert await talking.ask("hi") == "Hello!"
        [accepted] = talking.of("accepted")
        events = talking.events(accepted.accepted.turn_id)
        sequences = [event.sequence for event in events if event.sequence]
        assert sequences == list(range(1, len(sequences) + 1))
