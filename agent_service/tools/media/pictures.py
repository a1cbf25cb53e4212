"""What makes pictures: OpenAI's picture API, fal.ai, or a model of OpenRouter."""

import asyncio
import base64
import binascii
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any, Literal, Protocol

from msgspec import Struct
from pydantic import SecretStr

from agent_service.config.senses import PicturesConfig
from agent_service.models.consult import PaidResult
from agent_service.models.costs import PICTURE_TOKENS
from agent_service.models.data_urls import data_url
from agent_service.models.media.failures import MediaFailed, explain
from agent_service.models.media.openai_sdk import TIMEOUT_S, OpenAIServer
from agent_service.models.media.prices import PICTURE_MADE_TOKENS
from agent_service.models.pictures import picture_type
from agent_service.models.wires.wire import micro_usd, objects_of, tokens
from agent_service.records.usage import Usage
from agent_service.security.fetch.urls import Fetcher, FetchFailed, FetchLimits, FetchRefused
from services.validation import object_of

Shape = Literal["landscape", "square", "portrait"]
SETTINGS = ("FAL_KEY", "OPENAI_API_KEY", "OPENROUTER_API_KEY")
MAX_BYTES = 20_000_000
_MOST_TOKENS = 8_000
"""Of a picture of the best quality."""
_SIZES = {"landscape": "1536x1024", "square": "1024x1024", "portrait": "1024x1536"}
_RATIOS = {"landscape": "16:9", "square": "1:1", "portrait": "9:16"}
_FLUX_SIZES = {"landscape": "landscape_16_9", "square": "square_hd", "portrait": "portrait_16_9"}
_SPEAKING = ("google/", "openai/")
"""Vendors at OpenRouter whose models answer with text as well."""


class PictureRequest(Struct, frozen=True):
    """The picture to make."""

    prompt: str
    shape: Shape
    sources: Sequence[bytes] = ()
    """Pictures that it is made from."""

    def most(self, made_tokens: int) -> Usage:
        """The maximum usage."""
        return Usage(len(self.prompt) + PICTURE_TOKENS * len(self.sources), made_tokens)

    @property
    def urls(self) -> Sequence[str]:
        """The sources as data URLs; blocks."""
        return [data_url(str(picture_type(data)), data) for data in self.sources]


class ImageModel(Protocol):
    """Makes pictures."""

    @property
    def provider(self) -> str: ...

    @property
    def made_tokens(self) -> int:
        """What a picture counts at most."""
        ...

    def model_for(self, wanted: PictureRequest) -> str: ...

    async def paint(self, wanted: PictureRequest) -> PaidResult:
        """The picture's file; raises MediaFailed."""
        ...


class _ImageServer(Struct, frozen=True):
    server: OpenAIServer
    model: str
    made_tokens: int = _MOST_TOKENS

    @property
    def provider(self) -> str:
        return self.server.provider

    def model_for(self, wanted: PictureRequest) -> str:
        return self.model


class OpenAIImages(_ImageServer, frozen=True):
    """OpenAI's picture API."""

    async def paint(self, wanted: PictureRequest) -> PaidResult:
        kinds = [str(picture_type(data)) for data in wanted.sources]
        files = [
            (kind.replace("/", "."), data, kind)
            for kind, data in zip(kinds, wanted.sources, strict=True)
        ]
        size = _SIZES[wanted.shape]
        about: dict[str, Any] = {"model": self.model, "prompt": wanted.prompt, "size": size}

        async def make(client: Any) -> Any:
            if files:
                return await client.images.edit(image=files, **about)
            return await client.images.generate(**about)

        made = await self.server.call(make)
        used = Usage(completion_tokens=PICTURE_MADE_TOKENS)
        if made.usage is not None:
            used = Usage(made.usage.input_tokens, made.usage.output_tokens)
        return PaidResult(_decoded(made.data[0].b64_json if made.data else ""), used)


class OpenRouterImages(_ImageServer, frozen=True):
    """A model of OpenRouter that answers with pictures."""

    async def paint(self, wanted: PictureRequest) -> PaidResult:
        urls = await asyncio.to_thread(lambda: wanted.urls)
        shown = [{"type": "image_url", "image_url": {"url": url}} for url in urls]
        asked = {"role": "user", "content": [{"type": "text", "text": wanted.prompt}, *shown]}
        more = {
            "modalities": ["image", "text"] if self.model.startswith(_SPEAKING) else ["image"],
            "image_config": {"aspect_ratio": _RATIOS[wanted.shape]},
            "usage": {"include": True},
        }

        async def make(client: Any) -> Any:
            return await client.chat.completions.create(
                model=self.model, messages=[asked], extra_body=more
            )

        made = object_of((await self.server.call(make)).model_dump())
        usage = object_of(made.get("usage"))
        counted = (tokens(usage.get("prompt_tokens")), tokens(usage.get("completion_tokens")))
        message = object_of(_first(made.get("choices")).get("message"))
        url = object_of(_first(message.get("images")).get("image_url")).get("url")
        cost = micro_usd(usage.get("cost"))
        return PaidResult(_decoded(url), Usage(*counted, cost_micro_usd=cost))


class FalImages(Struct, frozen=True):
    """A model of fal.ai."""

    key: SecretStr
    model: str
    edit_model: str
    fetcher: Fetcher
    provider: str = "fal.ai"
    made_tokens: int = PICTURE_MADE_TOKENS

    def model_for(self, wanted: PictureRequest) -> str:
        return self.edit_model if wanted.sources else self.model

    async def paint(self, wanted: PictureRequest) -> PaidResult:
        model = self.model_for(wanted)
        about: dict[str, Any] = {"prompt": wanted.prompt, "num_images": 1}
        about |= {"output_format": "png", "sync_mode": True}
        if "flux" in model:
            about["image_size"] = _FLUX_SIZES[wanted.shape]
        else:
            about["aspect_ratio"] = _RATIOS[wanted.shape]
        if urls := await asyncio.to_thread(lambda: wanted.urls):
            about |= {"image_url": urls[0], "image_urls": urls}
        made = object_of(await self._run(model, about))
        url = str(_first(made.get("images") or made.get("image")).get("url"))
        data = _decoded(url) if url.startswith("data:") else await self._fetched(url)
        return PaidResult(data, Usage(completion_tokens=self.made_tokens))

    async def _run(self, model: str, about: Mapping[str, Any]) -> object:
        sdk, client = await asyncio.to_thread(self._client)
        import httpx

        status = None
        try:
            # The SDK has no way of its own to close the connections.
            async with await client._client:  # noqa: SLF001
                return await client.subscribe(model, about, client_timeout=TIMEOUT_S)
        except sdk.FalClientHTTPError as error:
            status, said = error.status_code, str(error.message)
        except (sdk.FalClientError, httpx.HTTPError) as error:
            said = str(error)
        raise MediaFailed(explain("fal.ai", "FAL_KEY", status, said))

    def _client(self) -> tuple[Any, Any]:
        import fal_client

        key = self.key.get_secret_value()
        return fal_client, fal_client.AsyncClient(key=key, default_timeout=TIMEOUT_S)

    async def _fetched(self, url: str) -> bytes:
        try:
            fetched = await self.fetcher.get(url, FetchLimits(size_bytes=MAX_BYTES))
        except (FetchRefused, FetchFailed) as error:
            raise MediaFailed(f"The picture of fal.ai was not fetched: {error}.") from error
        return b"" if fetched.status != 200 or fetched.is_cut else fetched.data


def _decoded(url: object) -> bytes:
    """The data of a data URL, or of base64 alone."""
    try:
        return base64.b64decode(str(url or "").rpartition(",")[2])
    except binascii.Error:
        return b""


def _first(listed: object) -> Mapping[str, Any]:
    """The first of some objects; empty if there is none."""
    return (objects_of(listed) or [{}])[0]


def image_model_of(
    config: PicturesConfig,
    openai: OpenAIServer | None,
    openrouter: OpenAIServer | None,
    fetcher: Fetcher,
) -> ImageModel | None:
    """What makes pictures as configured; None if nothing is set up."""
    made: dict[str, ImageModel] = {}
    if config.fal_key.get_secret_value() and find_spec("fal_client"):
        edits = config.fal_edit_model or f"{config.fal_model}/edit"
        made["fal"] = FalImages(config.fal_key, config.fal_model, edits, fetcher)
    if openai is not None:
        made["openai"] = OpenAIImages(openai, config.openai_model)
    if openrouter is not None:
        made["openrouter"] = OpenRouterImages(openrouter, config.openrouter_model)
    return made.get(config.provider) or next(iter(made.values()), None)
