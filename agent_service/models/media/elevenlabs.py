"""ElevenLabs' SDK, loaded when it is first used."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct
from pydantic import SecretStr

from agent_service.models.media.failures import MediaFailed, explain
from agent_service.models.proxies import proxy_of
from services.validation import object_of

NAME, API_KEY = "ElevenLabs", "ELEVENLABS_API_KEY"
TIMEOUT_S = 120.0

if TYPE_CHECKING:
    import httpx

_T = TypeVar("_T")


class ElevenLabs(Struct, frozen=True):
    """An account at ElevenLabs."""

    base_url: str
    api_key: SecretStr

    async def call(self, make: Callable[[Any], Awaitable[_T]]) -> _T:
        """Make a call with a client; raises MediaFailed."""
        http, client, refusal = await asyncio.to_thread(self._client)
        import httpx

        try:
            async with http:
                return await make(client)
        except refusal as error:
            reason = explain(NAME, API_KEY, getattr(error, "status_code", None), _said(error))
        except httpx.HTTPError as error:
            reason = explain(NAME, API_KEY, None, str(error))
        raise MediaFailed(reason)

    def _client(self) -> tuple["httpx.AsyncClient", Any, type[Exception]]:
        """A client with its connections, and what it raises if a call is refused; blocks."""
        import httpx
        from elevenlabs.client import AsyncElevenLabs
        from elevenlabs.core.api_error import ApiError

        proxy, trust = proxy_of(self.base_url), httpx.create_ssl_context()
        http = httpx.AsyncClient(trust_env=False, proxy=proxy, verify=trust, timeout=TIMEOUT_S)
        key = self.api_key.get_secret_value()
        client = AsyncElevenLabs(api_key=key, base_url=self.base_url, httpx_client=http)
        return http, client, ApiError


def _said(error: Any) -> str:
    detail: object = object_of(error.body).get("detail", error.body)
    return str(object_of(detail).get("message", detail))
