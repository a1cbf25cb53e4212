"""The only module that uses the SDK: a pooled client that posts and streams."""

import asyncio
import ssl
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Sequence
from contextlib import aclosing, asynccontextmanager, contextmanager, suppress
from importlib.abc import Loader
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import TYPE_CHECKING, Any, Self, cast

from msgspec import Struct

from agent_service.models.endpoints import Endpoint, key_header, url_below
from agent_service.models.failures import (
    NO_CONNECTION,
    connection_failure,
    cut_failure,
    http_failure,
    proxy_failure,
    timeout_failure,
)
from agent_service.models.proxies import is_loopback, proxy_of
from agent_service.models.wires.wire import READ, Wire
from services.errors import ServiceUnavailable

_TYPES = ("openai.types", "openai.types.responses", "openai.types.shared")
"""Packages that build classes from 450 modules, which takes pydantic 0.2 s."""


@contextmanager
def types_deferred() -> Generator[None]:
    """Import the SDK inside this context; its types load on first use."""
    sys.meta_path.insert(0, _Finder)
    try:
        yield
    finally:
        sys.meta_path.remove(_Finder)


class _Finder:
    """Finds the packages of types, with a lazy loader."""

    @classmethod
    def find_spec(
        cls, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(fullname, path, target) if fullname in _TYPES else None
        if spec is not None and spec.loader is not None:
            spec.loader = _Later(spec.loader)
        return spec


class _Later(Loader):
    """Runs a package when one of its attributes is used, not when a module in it is imported."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def exec_module(self, module: ModuleType) -> None:
        object.__setattr__(module, "__class__", _Deferred)

    def run(self, module: ModuleType) -> None:
        object.__setattr__(module, "__class__", ModuleType)
        self._loader.exec_module(module)


class _Deferred(ModuleType):
    def __getattr__(self, name: str) -> Any:
        loader = self.__spec__ and self.__spec__.loader
        if name.startswith("__") or not isinstance(loader, _Later):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        loader.run(self)
        return getattr(self, name)


if TYPE_CHECKING:
    from httpx2 import Response

_DRAIN_S = 0.05
# Local servers need no key, but the SDK requires one.
_NO_KEY = "none"


class Timeouts(Struct, frozen=True):
    """How long to wait for a connection, and for the next bytes of an answer."""

    connect_s: float = 10.0
    idle_s: float = 300.0


class Answer:
    """A successful response whose body is still arriving."""

    def __init__(self, response: "Response") -> None:
        self.content_type: str = response.headers.get("content-type", "")
        self.read: Callable[[], Awaitable[bytes]] = response.extensions[READ]
        """Returns the bytes received since the last call; empty at the end."""

    async def drain(self) -> None:
        """Read the rest of a finished body if it ends soon, so that the connection is reused."""
        import httpx2  # loaded by the SDK

        with suppress(TimeoutError, httpx2.RequestError):
            async with asyncio.timeout(_DRAIN_S):
                while await self.read():
                    pass


class Transport:
    """Posts requests of one kind to one provider's endpoint over a pool of connections.

    The SDK and certificates load in a thread on first use, since they take a tenth of a second.
    """

    def __init__(self, wire: Wire, timeouts: Timeouts | None = None) -> None:
        self._key_header = wire.key_header
        self._path = wire.path
        self._timeouts = timeouts or Timeouts()
        self._headers = dict(wire.headers())
        self._opened: tuple[Any, Any] | None = None
        """The SDK's module and its client."""
        self._connecting = asyncio.Lock()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        opened, self._opened = self._opened, None
        if opened is not None:
            await opened[1].close()

    @asynccontextmanager
    async def post(self, endpoint: Endpoint, model: str, body: bytes) -> AsyncGenerator[Answer]:
        """Post a request and yield its response; raises `ModelError`.

        Uses the SDK's generic request with an encoded body: its own method for this endpoint
        encodes the body again, which takes twice the CPU time of everything else.
        """
        sdk, client = await self.ready(endpoint)
        import httpx2  # loaded by the SDK
        from openai._models import FinalRequestOptions  # options of its generic `post`

        # With the whole URL, since the SDK would join it for each request.
        url = url_below(endpoint.base_url, self._path)
        headers = self._headers_of(endpoint, sdk)
        try:
            response = await client.request(
                httpx2.Response,
                FinalRequestOptions.construct(
                    method="post", url=url, content=body, headers=headers
                ),
                stream=True,
                stream_cls=sdk.AsyncStream,
            )
            async with aclosing(cast("httpx2.Response", response)) as answer:
                yield Answer(answer)
        except sdk.APIStatusError as error:
            raise http_failure(
                endpoint, model, error.status_code, error.response.headers, error.body
            ) from None  # the response may repeat the key, and a traceback would show it
        except (sdk.APITimeoutError, httpx2.TimeoutException) as error:
            if isinstance(error.__cause__, httpx2.ConnectTimeout):
                reason = f"{NO_CONNECTION} {self._timeouts.connect_s:g} s"
                raise connection_failure(endpoint, reason) from error
            raise timeout_failure(endpoint, self._timeouts.idle_s) from error
        except sdk.APIConnectionError as error:
            raise connection_failure(endpoint, str(error.__cause__ or error)) from error
        except httpx2.RequestError as error:
            raise cut_failure(endpoint, str(error) or "the connection is gone") from error

    def _headers_of(self, endpoint: Endpoint, sdk: Any) -> dict[str, Any]:
        """Replaces the SDK's authentication header, since the key may have changed."""
        key = endpoint.api_key.get_secret_value() or _NO_KEY
        signed = {"Authorization": f"Bearer {key}"}
        name = key_header(endpoint.base_url, self._key_header)
        if name != "Authorization":
            signed = {name: key, "Authorization": sdk.Omit()}
        return {**signed, **endpoint.headers}

    async def ready(self, endpoint: Endpoint) -> tuple[Any, Any]:
        if self._opened is None:
            async with self._connecting:
                if self._opened is None:
                    self._opened = await asyncio.to_thread(self._prepare, endpoint)
        return self._opened

    def _prepare(self, endpoint: Endpoint) -> tuple[Any, Any]:
        import httpx2  # the SDK's HTTP client

        with types_deferred():
            import openai as sdk
        from agent_service.models.wires.http_client import AiohttpClient

        # Reading the system's certificates is the slowest part of making a client.
        needs_none = is_loopback(endpoint.base_url) and endpoint.base_url.startswith("http://")
        try:
            proxy = proxy_of(endpoint.base_url)
        except ServiceUnavailable as error:
            raise proxy_failure(endpoint, error.message) from None
        timeout = httpx2.Timeout(self._timeouts.idle_s, connect=self._timeouts.connect_s)
        client = AiohttpClient(
            verify=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            if needs_none
            else httpx2.create_ssl_context(),
            timeout=timeout,
            trust_env=False,
            proxy=proxy,
        )
        opened = sdk.AsyncOpenAI(
            base_url=endpoint.base_url,
            api_key=endpoint.api_key.get_secret_value() or _NO_KEY,
            max_retries=0,
            timeout=timeout,
            default_headers=self._headers,
            http_client=client,
        )
        if endpoint.provider != "openai":
            # The SDK takes them from the environment, but they are only for OpenAI.
            opened.organization = opened.project = None
            opened._custom_headers = dict(self._headers)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        return sdk, opened
