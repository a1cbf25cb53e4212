"""What a model call had said when it was broken off: stored, told and sent on without secrets."""

import asyncio
from pathlib import Path

import pytest

from hermes.agent.v1 import turn_pb2
from services.redaction.redactor import MASK
from tests.fakes.model import answers, fake_model
from tests.integration.agent_parts import agent, answer

KEY = "canary.model.key.Zq8vTr2nWx5Lp0Gs"
SPELT = " q ".join(f"{byte:02x}" for byte in KEY.encode())
"""In words, which can only be told to be the key where all of them are there."""
SAID = f"From {bytes(8).hex()} on it is {SPELT}. "
PIECES = {"text": f"{SAID} And so it goes on.", "chunk_chars": 7, "chunk_delay_s": 0.01}
"""One after another: of what comes at once nothing is shown but what is left of it."""
SAID_PIECES = len(SAID) // 7 + 1
HI = {"text": "Hi."}


def kept(home: Path) -> bytes:
    return b"".join(path.read_bytes() for path in home.rglob("*") if path.is_file())


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home whose agent does not try again what has failed."""
    (tmp_path / "config.yaml").write_text("agent: {api_max_retries: 0}\n")
    return tmp_path


async def test_an_interrupted_answer_has_no_secrets(home: Path) -> None:
    said = {**PIECES, "hang_after": SAID_PIECES}
    async with (
        fake_model(answers(said, HI)) as model,
        agent(home, model.url, HERMES_API_KEY=KEY) as client,
    ):
        turn = await client.start("what is it?")
        shown = ""
        while SPELT[-8:] not in shown:
            event = await client.until(turn.turn_id, "text_snapshot", "text_delta")
            shown = event.text_snapshot.text
        await client.turns.InterruptTurn(turn_pb2.InterruptTurnRequest(turn_id=turn.turn_id))
        ended = (await client.watch(turn.turn_id))[-1].turn_finished.cancelled
        assert answer(await client.ask("and then?")) == "Hi."
    assert ended.partial_answer.startswith(f"From {bytes(8).hex()} on it is {MASK}")
    assert model.bodies[1]["messages"][2]["content"] == ended.partial_answer
    assert SPELT[-40:].encode() not in await asyncio.to_thread(kept, home)


async def test_an_answer_that_failed_has_no_secrets(home: Path) -> None:
    said = {**PIECES, "cut_after": SAID_PIECES}
    async with (
        fake_model(answers(said)) as model,
        agent(home, model.url, HERMES_API_KEY=KEY) as client,
    ):
        ended = (await client.ask("what is it?"))[-1].turn_finished
    assert ended.HasField("failed")
    found = await asyncio.to_thread(kept, home)
    assert MASK.encode() in found
    assert SPELT[-40:].encode() not in found
