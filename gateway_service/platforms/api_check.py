"""The check of the HTTP API for `hermes doctor`."""

import asyncio

from gateway_service.platforms.api_config import ApiConfig
from services.runtime.checks import Check, Verdict

WAIT_S = 2.0
_REQUEST = b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


async def check_api(config: ApiConfig) -> Check:
    """Say where the API is, and whether another program uses its port."""
    place = f"{config.host}:{config.port}"
    try:
        async with asyncio.timeout(WAIT_S):
            answer = await _ask(config)
    except ConnectionRefusedError:
        return Check("http", Verdict.OK, f"the API will be on {place} while Hermes runs")
    except (OSError, TimeoutError):
        answer = b""
    if b'{"status":"ok"}' in answer:
        return Check("http", Verdict.OK, f"the API is on {place}")
    text = f"{place} is not Hermes's: another program uses it; set API_SERVER_PORT to another port"
    return Check("http", Verdict.FAILED, text)


async def _ask(config: ApiConfig) -> bytes:
    reader, writer = await asyncio.open_connection(config.host, config.port)
    try:
        writer.write(_REQUEST)
        return await reader.read(4096)
    finally:
        writer.close()
