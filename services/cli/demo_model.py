"""The model of `hermes demo`: it matches words, behind the streamed chat completions of OpenAI."""

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aiohttp import web

MODEL = "hermes-demo"
_PIECE_CHARS = 8
_PIECE_DELAY_S = 0.02
_NOTE = "Hello from the demo.\nThis file is in the sandbox.\n"

Call = tuple[str, Mapping[str, Any]]
"""A tool and its arguments."""


Step = tuple[str, Sequence[Call]]
"""The text and calls of a model response; `{tool_result}` stands for the last tool's output."""


def _terminal(command: str, **options: Any) -> Call:
    return "terminal", {"command": command, **options}


_HELP = """\
There is no language model here: I am a script that looks for words in what you type. Everything \
else is real. Try one of these:

- *what system are you on?* runs uname and id in the sandbox
- *write a file* writes a file and reads it back
- *run four in parallel* runs four commands side by side
- *something slow* runs a long command, to interrupt with Ctrl-C

For real answers set OPENROUTER_API_KEY, OPENAI_API_KEY or HERMES_BASE_URL and start \
`hermes chat`."""
_SLEEP = _terminal("sleep 600", timeout=600)
_NAPS = [_terminal(f"sleep 0.5; echo {each}") for each in ("one", "two", "three", "four")]

_RAN = "The command really ran, in a sandbox and not on this machine. It printed:\n\n{tool_result}"
_WRITTEN = {"path": "hello.txt", "content": _NOTE}
RULES: Mapping[str, Sequence[Step]] = {
    r"\b(uname|kernel|machine|system|where are you|who are you|sandbox)\b": (
        ("I look around in the sandbox with the terminal tool.", [_terminal("uname -a; id; pwd")]),
        (_RAN, ()),
    ),
    r"\b(file|note|write|read)\b": (
        ("I write a file in the workspace.", [("write_file", _WRITTEN)]),
        ("Now I read it back.", [("read_file", {"path": "hello.txt"})]),
        ("The file says:\n\n{tool_result}", ()),
    ),
    r"\b(parallel|together|at once|side by side)\b": (
        ("Four commands of half a second each, in one go.", _NAPS),
        ("All four are back; they ran side by side.", ()),
    ),
    r"\b(slow|long|interrupt|stop|wait)\b": (
        ("I start `sleep 600`. Press Ctrl-C: nothing of it stays behind.", [_SLEEP]),
        ("The command has ended.", ()),
    ),
    "": ((_HELP, ()),),
}
"""Matched words, and the response of each model call of a turn."""


def step_for(messages: Sequence[Mapping[str, Any]]) -> Step:
    """Return the next response of the turn that the messages end with."""
    result, done = "", 0
    for message in reversed(messages):
        if message["role"] == "user":
            words = _content(message)
            rules = (rule for pattern, rule in RULES.items() if re.search(pattern, words, re.I))
            steps = next(rules)
            text, calls = steps[min(done, len(steps) - 1)]
            return f"(scripted demo) {text.replace('{tool_result}', result.strip())}", calls
        result = result or (_content(message) if message["role"] == "tool" else "")
        done += message["role"] == "assistant"
    return "(scripted demo) Nobody has asked for anything.", ()


@asynccontextmanager
async def demo_model() -> AsyncGenerator[str]:
    """Serve the model on a free local port; yields the base URL."""
    from aiohttp import web

    app = web.Application(client_max_size=64 * 1024 * 1024)
    app.router.add_post("/v1/chat/completions", _complete)
    runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=0)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        yield f"http://{host}:{port}/v1"
    finally:
        await runner.cleanup()


async def _complete(request: "web.Request") -> "web.StreamResponse":
    from aiohttp import web

    body = await request.read()
    step = step_for(json.loads(body)["messages"])
    response = web.StreamResponse(headers={"content-type": "text/event-stream"})
    await response.prepare(request)
    for chunk in _chunks(step, len(body)):
        await response.write(f"data: {json.dumps(chunk)}\n\n".encode())
        await asyncio.sleep(_PIECE_DELAY_S)
    await response.write(b"data: [DONE]\n\n")
    return response


def _chunks(step: Step, prompt_bytes: int) -> Iterator[dict[str, Any]]:
    text, calls = step
    head = {"id": "demo", "object": "chat.completion.chunk", "created": 0, "model": MODEL}

    def chunk(delta: Mapping[str, Any], finish_reason: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
        return {**head, "choices": [choice]}

    for at in range(0, len(text), _PIECE_CHARS):
        yield chunk({"content": text[at : at + _PIECE_CHARS]})
    for index, (name, arguments) in enumerate(calls):
        function = {"name": name, "arguments": json.dumps(arguments)}
        called = {"index": index, "id": f"call_{index}", "type": "function", "function": function}
        yield chunk({"tool_calls": [called]})
    yield chunk({}, "tool_calls" if calls else "stop")
    # With most models, a token is about four characters.
    prompt, completion = prompt_bytes // 4, max(1, len(text) // 4)
    usage = {"prompt_tokens": prompt, "completion_tokens": completion}
    yield {**head, "choices": [], "usage": {**usage, "total_tokens": prompt + completion}}


def _content(message: Mapping[str, Any]) -> str:
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "") for part in content)
