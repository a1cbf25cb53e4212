"""The model called without Hermes, with the very request that Hermes sends."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from time import perf_counter

import httpx

from tests.bench.conversation import Timing, conversation
from tests.bench.figures import BenchError
from tests.bench.hermes import hermes
from tests.bench.model_process import PLAIN, SCRIPT
from tests.fakes.model import fake_model


class DirectModel:
    """Sends one request to the model, again and again."""

    def __init__(self, client: httpx.AsyncClient, url: str, body: bytes) -> None:
        self._client = client
        self._url = f"{url}/chat/completions"
        self._body = body

    async def ask(self) -> Timing:
        """Send the request; returns when the first and the last of its answer came."""
        headers = {"content-type": "application/json"}
        begun, first_ms = perf_counter(), 0.0
        answer = self._client.stream("POST", self._url, content=self._body, headers=headers)
        async with answer as response:
            async for _ in response.aiter_bytes():
                first_ms = first_ms or (perf_counter() - begun) * 1_000
        if not response.is_success:
            raise BenchError(f"the model's answer has status {response.status_code}")
        return Timing(first_ms, (perf_counter() - begun) * 1_000)


@asynccontextmanager
async def direct_model(url: str, body: bytes) -> AsyncGenerator[DirectModel]:
    """Keep a connection to the model."""
    async with httpx.AsyncClient() as client:
        yield DirectModel(client, url, body)


_LOOKS_BACK = b"look back at the conversation above"


async def request_of_hermes(home: Path, plain_turns: int) -> bytes:
    """Return what Hermes sends to the model in a session that has had some turns."""
    async with (
        fake_model(SCRIPT) as model,
        hermes(home, model.url) as running,
        conversation(running.channels, plain_turns) as talk,
    ):
        await talk.ask(PLAIN)
        # One that looks back at the session may have come between.
        return next(each.body for each in reversed(model.requests) if _LOOKS_BACK not in each.body)
