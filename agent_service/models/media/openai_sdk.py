"""OpenAI's SDK for servers with its speech and picture APIs, loaded when it is first used."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct
from pydantic import SecretStr

from agent_service.models.media.failures import MediaFailed, explain

if TYPE_CHECKING:
    from openai import AsyncOpenAI

TIMEOUT_S = 120.0
MAX_RETRIES = 2

_T = TypeVar("_T")


class OpenAIServer(Struct, frozen=True):
    """A server that speaks OpenAI's API."""

    provider: str
    """What people call it."""
    base_url: str
    api_key: SecretStr
    setting: str
    """Which setting has its key."""

    async def call(self, make: Callable[["AsyncOpenAI"], Awaitable[_T]]) -> _T:
        """Make a call; raises MediaFailed."""
        client = await asyncio.to_thread(self._client)
        import openai

        try:
            async with client:
                return await make(client)
        except openai.APIStatusError as error:
            reason = explain(self.provider, self.setting, error.status_code, error.message)
        except openai.APIConnectionError as error:
            reason = explain(self.provider, self.setting, None, str(error))
        except openai.OpenAIError as error:
            reason = f"{self.provider}: {error}"
        # The SDK's errors may repeat the key, and a traceback would show it.
        raise MediaFailed(reason)

    def _client(self) -> "AsyncOpenAI":
        import openai  # takes half a second

        return openai.AsyncOpenAI(
            api_key=self.api_key.get_secret_value() or "none",
            base_url=self.base_url,
            timeout=TIMEOUT_S,
            max_retries=MAX_RETRIES,
        )
