"""The HTTP API: many requests at the same time, and the first text of a streamed answer."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from time import perf_counter

import aiohttp

from tests.bench.conversation import Timing
from tests.bench.figures import BenchError, Plan, Reading, Spread
from tests.bench.hermes import hermes
from tests.bench.model_direct import direct_model, request_of_hermes
from tests.bench.model_process import PLAIN, model_process
from tests.bench.turns import PLAIN_TURNS
from tests.support.ports import free_port

CONNECTIONS = 64
SECONDS_PER_SAMPLE = 0.05
_LEAD_S = 1.0
_KEY = "sk-of-the-bench-0123456789"


class Client:
    """One connection, with a session of its own."""

    def __init__(self, http: aiohttp.ClientSession, session_id: str) -> None:
        self._http = http
        self._headers = {"X-Hermes-Session-Id": session_id}

    async def ask(self, *, stream: bool = False) -> Timing:
        """Send a message; returns when its first text and its end came."""
        body = {"messages": [{"role": "user", "content": PLAIN}], "stream": stream}
        begun, first_ms = perf_counter(), 0.0
        path = "/v1/chat/completions"
        async with self._http.post(path, json=body, headers=self._headers) as response:
            if response.status != 200:
                raise BenchError(f"the API answered {response.status}: {await response.text()}")
            async for line in response.content:
                if not first_ms and b'"content":"T' in line:
                    first_ms = (perf_counter() - begun) * 1_000
        return Timing(first_ms, (perf_counter() - begun) * 1_000)


async def requests(plan: Plan) -> list[Reading]:
    """Measure how many whole answers are given in a second."""
    lasting_s = max(1.0, plan.samples * SECONDS_PER_SAMPLE)
    number = min(CONNECTIONS, plan.samples)
    async with model_process() as url, _served(plan.folder / "requests", url) as http:
        clients = [Client(http, f"bench-{each}") for each in range(number)]
        await asyncio.gather(*(client.ask() for client in clients))
        begin = perf_counter() + _LEAD_S
        end = begin + lasting_s
        counts = await asyncio.gather(*(_ask_on(client, begin, end) for client in clients))
    note = f"in {lasting_s:g} s, {min(counts)} to {max(counts)} on each of {number} connections"
    return [Reading("http_requests_per_s_64", round(sum(counts) / lasting_s, 1), note)]


async def first_token(plan: Plan) -> list[Reading]:
    """Measure the first text of a stream, and beside it the model called directly."""
    body = await request_of_hermes(plan.folder / "request", PLAIN_TURNS)
    added_ms: list[float] = []
    async with (
        model_process() as url,
        _served(plan.folder / "stream", url) as http,
        direct_model(url, body) as model,
    ):
        while len(added_ms) < plan.samples:
            client = Client(http, f"bench-{len(added_ms)}")
            for _ in range(PLAIN_TURNS):
                await client.ask()
            await model.ask()
            for _ in range(5):
                streamed, direct = await client.ask(stream=True), await model.ask()
                added_ms.append(streamed.first_ms - direct.first_ms)
    return [Reading("http_first_token_added_ms", Spread.of(added_ms))]


async def _ask_on(client: Client, begin: float, end: float) -> int:
    """Ask until the end; returns how many answers came in the time."""
    count = 0
    while True:
        await client.ask()
        now = perf_counter()
        if now >= end:
            return count
        count += now >= begin


@asynccontextmanager
async def _served(home: Path, model_url: str) -> AsyncGenerator[aiohttp.ClientSession]:
    port = str(free_port())
    variables = {"API_SERVER_KEY": _KEY, "API_SERVER_PORT": port}
    connector = aiohttp.TCPConnector(limit=CONNECTIONS)
    headers = {"Authorization": f"Bearer {_KEY}"}
    async with (
        hermes(home, model_url, **variables),
        aiohttp.ClientSession(
            f"http://127.0.0.1:{port}", connector=connector, headers=headers
        ) as http,
    ):
        yield http
