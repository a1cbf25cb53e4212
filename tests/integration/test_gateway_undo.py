"""What was said last is taken back once, however often that is asked for."""

from pathlib import Path

from tests.fakes.model import fake_model
from tests.integration.gateway_parts import client, hermes
from tests.integration.test_gateway_conversation import ECHO, Wire


async def test_a_repeated_undo_takes_back_one_exchange(tmp_path: Path) -> None:
    async with fake_model(ECHO) as model, hermes(tmp_path, model.url) as running:
        async with client(running) as talking:
            session_id = await talking.open()
            for text in ("one", "two", "/retry"):
                assert await talking.ask(text) in ("re: one", "re: two")
            assert (await talking.command("/retry it")).is_error
        for _ in range(2):
            # The reply was not heard.
            wire = Wire(running)
            await wire.open(session_id=session_id)
            await wire.say("msg_undo", "/undo")
            [heard] = await wire.rest()
            assert heard.reply.text.startswith("Taken back: `two`. 2 messages")
        async with client(running) as talking:
            nothing = await talking.command("/undo")
            assert (nothing.is_error, nothing.text) == (True, "There is nothing to take back.")
            assert "nothing was said" in (await talking.command("/retry")).text
