"""Notes of a repository that a client sends along, on their way through the gateway."""

import json
from pathlib import Path

from hermes.common.v1.content_pb2 import ContextFile
from hermes.gateway.v1.conversation_pb2 import ConverseRequest
from tests.fakes.model import answers, fake_model
from tests.integration.gateway_parts import client, hermes

ECHO = answers({"text": "re: {user}"})


async def test_the_notes_of_a_folder_come_with_the_first_message_of_a_session(
    tmp_path: Path,
) -> None:
    notes = ContextFile(path="../HERMES.md", text="Use tabs.")
    # There is no executor here that could be asked what the folder itself says.
    opening = ConverseRequest.Open(
        workdir=str(tmp_path), context_file=notes, skip_context_files=True
    )
    async with fake_model(ECHO) as model, hermes(tmp_path, model.url) as running:
        async with client(running, opening) as talking:
            for text in ("one", "two", "/new", "three", "four"):
                await (talking.command if text == "/new" else talking.ask)(text)
        rows = await running.rows("gateway", "SELECT payload FROM inbox ORDER BY sequence")
    payloads = [json.loads(payload) for (payload,) in rows]
    told = {payload["text"]: payload.get("notes_above") for payload in payloads}
    sent = {"path": "../HERMES.md", "text": "Use tabs."}
    assert told == {"one": sent, "two": None, "three": sent, "four": None}
