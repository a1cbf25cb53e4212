"""What an API server tells of changes, as they happen: one line each, over HTTP and asyncio."""

import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING

from executor_service.backends.kubernetes.reading import Json, message_of
from executor_service.backends.kubernetes.socket import Approach
from executor_service.errors import EngineRefused

if TYPE_CHECKING:
    from httpx import AsyncClient, Response, Timeout

_CONNECT_DEADLINE_S = 5.0
_MAX_LINE_BYTES = 8 * 1024 * 1024
"""Of an object there are at most 1.5 MiB where it is stored."""


async def events_at(approach: Approach, silence_s: float) -> AsyncGenerator[Json]:
    """Each event until the server ends its answer; EngineRefused with what it says, or OSError.

    OSError too when nothing comes for so many seconds.
    """
    import httpx

    try:
        async with (
            _client(approach, httpx.Timeout(_CONNECT_DEADLINE_S, read=silence_s)) as client,
            client.stream("GET", approach.url, extensions=_named(approach)) as answer,
            aclosing(_lines(answer)) as lines,
        ):
            async for line in lines:
                yield json.loads(line)
    except (httpx.HTTPError, ValueError) as error:
        raise OSError(str(error) or type(error).__name__) from error


def _client(approach: Approach, timeout: "Timeout") -> "AsyncClient":
    from httpx import AsyncClient

    return AsyncClient(
        headers={**approach.headers, "Accept-Encoding": "identity"},
        verify=approach.ssl_context or False,
        proxy=approach.proxy,
        timeout=timeout,
        trust_env=False,
    )


def _named(approach: Approach) -> dict[str, str]:
    return {"sni_hostname": approach.server_name} if approach.server_name else {}


async def _lines(answer: "Response") -> AsyncGenerator[bytes]:
    """In bytes: in text, more characters than one would end a line."""
    if answer.is_error:
        said = (await answer.aread()).decode(errors="replace")
        raise EngineRefused(answer.status_code, message_of(said))
    pending = b""
    async for data in answer.aiter_raw():
        *whole, pending = (pending + data).split(b"\n")
        if len(pending) > _MAX_LINE_BYTES:
            raise OSError("an event of the API server is too large")
        for line in whole:
            yield line
