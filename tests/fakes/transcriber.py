"""OpenAI's audio transcriptions for tests, strict about what they are asked."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web

from tests.fakes.http_server import bind, serving

KEY = "transcription-key-for-tests"


@dataclass(slots=True)
class Transcriber:
    """Answers every sound with the same words; `heard` is what it was sent."""

    url: str = ""
    text: str = "Good morning."
    heard: list[tuple[str, bytes]] = field(default_factory=list[tuple[str, bytes]])
    """The names and contents of the files."""
    hangs: bool = False
    released: asyncio.Event = field(default_factory=asyncio.Event)
    asked: asyncio.Event = field(default_factory=asyncio.Event)

    async def handle(self, request: web.Request) -> web.Response:
        """Answer a request."""
        assert (request.method, request.path) == ("POST", "/v1/audio/transcriptions")
        if request.headers.get("Authorization") != f"Bearer {KEY}":
            return web.json_response({"error": {"message": "wrong key"}}, status=401)
        form = await request.post()
        model, file = form["model"], form["file"]
        if model != "whisper" or not isinstance(file, web.FileField):
            return web.json_response({"error": {"message": "model or file missing"}}, status=400)
        self.heard.append((file.filename, file.file.read()))
        self.asked.set()
        if self.hangs:
            await self.released.wait()
        usage = {"type": "tokens", "input_tokens": 120, "output_tokens": 4, "total_tokens": 124}
        return web.json_response({"text": self.text, "usage": usage})


@asynccontextmanager
async def transcriber() -> AsyncGenerator[Transcriber]:
    """Serve it for as long as the context is open."""
    fake = Transcriber()
    listener, url = bind()
    fake.url = f"{url}/v1"
    async with serving(listener, fake.handle):
        yield fake
        fake.released.set()
