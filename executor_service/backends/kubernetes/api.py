"""Calls to a Kubernetes API server over HTTP, and streams over WebSockets.

Kubernetes' own client finds the server and the credentials. It is slow to import, so the first call
loads it, in a thread.
"""

import asyncio
import contextlib
import json
import os
import ssl
from collections.abc import AsyncGenerator, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlencode

from msgspec import Struct

from executor_service.backends.kubernetes.stream import PROTOCOL, ExecStream
from executor_service.config import KubernetesConfig
from executor_service.errors import BackendUnavailable, EngineRefused

if TYPE_CHECKING:
    from httpx2 import AsyncClient
    from kubernetes.client import Configuration

Json = dict[str, Any]
"""An object of the API, which leaves out empty fields."""

CALL_DEADLINE_S = 30.0
_CONNECT_DEADLINE_S = 5.0
_ANSWER_DEADLINE_S = 10.0
_WATCH_S = 60
"""How long one watch lasts, and so how long a dead connection can go unnoticed."""
_FIRST_PAUSE_S = 0.2
_PING_INTERVAL_S = 20.0
_PING_TIMEOUT_S = 10.0
_CLOSE_DEADLINE_S = 1.0
_MAX_MESSAGE_BYTES = 4 * 1024 * 1024


class _Server(Struct, frozen=True):
    """The API server's address and certificate, and our credentials."""

    configuration: "Configuration"
    host: str
    ssl_context: ssl.SSLContext | None
    http: "AsyncClient"

    async def headers(self) -> dict[str, str]:
        settings = await asyncio.to_thread(cast("Any", self.configuration).auth_settings)
        token = settings.get("BearerToken")
        return {"Authorization": token["value"]} if token else {}


class Cluster:
    """One API server."""

    def __init__(self, config: KubernetesConfig) -> None:
        self._config = config
        self._finding = asyncio.Lock()
        self._server: _Server | None = None

    async def call(self, method: str, path: str, body: Json | None = None, **query: str) -> Json:
        """Return the JSON answer to one call; EngineRefused, or BackendUnavailable.

        A call that a busy server rejects (429) is repeated.
        """
        pause_s = _FIRST_PAUSE_S
        async with self._answering():
            while True:
                try:
                    return await self._send(method, path, body, query)
                except EngineRefused as error:
                    if error.status != HTTPStatus.TOO_MANY_REQUESTS:
                        raise
                await asyncio.sleep(pause_s)
                pause_s *= 2

    async def _send(self, method: str, path: str, body: Json | None, query: dict[str, str]) -> Json:
        import httpx2

        server = await self._find()
        name = cast("Any", server.configuration).tls_server_name
        try:
            answer = await server.http.request(
                method,
                path,
                json=body,
                params=query,
                headers=await server.headers(),
                extensions={"sni_hostname": name} if name else None,
            )
            if answer.is_error:
                raise EngineRefused(answer.status_code, message_of(answer.text))
            return answer.json()
        except (httpx2.HTTPError, ValueError) as error:
            raise OSError(str(error) or type(error).__name__) from error

    async def watch(self, path: str, **query: str) -> AsyncGenerator[Json]:
        """Yield events until the server ends the watch; fails as `call` does."""
        import httpx2

        server = await self._find()
        name = cast("Any", server.configuration).tls_server_name
        query |= {"watch": "true", "timeoutSeconds": str(_WATCH_S), "allowWatchBookmarks": "true"}
        try:
            async with server.http.stream(
                "GET",
                path,
                params=query,
                headers=await server.headers(),
                timeout=httpx2.Timeout(_ANSWER_DEADLINE_S, read=_WATCH_S + _ANSWER_DEADLINE_S),
                extensions={"sni_hostname": name} if name else None,
            ) as answer:
                if answer.is_error:
                    text = (await answer.aread()).decode(errors="replace")
                    raise EngineRefused(answer.status_code, message_of(text))
                async for line in answer.aiter_lines():
                    yield json.loads(line)
        except (httpx2.HTTPError, ValueError) as error:
            raise _silent(str(error) or type(error).__name__) from error

    async def host(self) -> str:
        async with self._answering():
            return (await self._find()).host

    async def exec(
        self, namespace: str, pod: str, container: str, command: Sequence[str]
    ) -> ExecStream:
        """Start a command in a pod and use its streams; fails as call does."""
        query = [("container", container), *((name, "true") for name in ("stdin", "stdout"))]
        query += [("stderr", "true"), *(("command", part) for part in command)]
        path = f"/api/v1/namespaces/{namespace}/pods/{pod}/exec?{urlencode(query)}"
        async with self._answering():
            return await _open_stream(await self._find(), path)

    async def _find(self) -> _Server:
        async with self._finding:
            if self._server is None:
                self._server = await asyncio.to_thread(_find, self._config)
            return self._server

    @contextlib.asynccontextmanager
    async def _answering(self) -> AsyncGenerator[None, None]:
        """Turn timeouts and connection errors into BackendUnavailable."""
        try:
            async with asyncio.timeout(CALL_DEADLINE_S):
                yield
        except TimeoutError as error:
            raise _silent(f"no answer within {CALL_DEADLINE_S:g} s") from error
        except ImportError as error:
            raise BackendUnavailable(
                f"the package {error.name} is missing: pip install 'hermes-services[kubernetes]'"
            ) from error
        except OSError as error:
            raise _silent(str(error)) from error

    async def close(self) -> None:
        if self._server is not None:
            await self._server.http.aclose()


def _find(chosen: KubernetesConfig) -> _Server:
    """Find the configured cluster. Imports and reads files."""
    from httpx2 import AsyncClient, Timeout
    from kubernetes import config
    from kubernetes.client import Configuration

    named = chosen.kubeconfig.split(os.pathsep)
    if chosen.kubeconfig and not any(Path(file).expanduser().is_file() for file in named):
        raise BackendUnavailable(
            f"executor.kubernetes.kubeconfig: there is no file {chosen.kubeconfig}"
        )
    # Otherwise a proxy that the environment names would be used.
    configuration = Configuration(proxy="", no_proxy="")
    loaders = cast("Any", config)
    try:
        if chosen.kubeconfig or chosen.context:
            loaders.load_kube_config(
                chosen.kubeconfig or None,
                chosen.context or None,
                client_configuration=configuration,
                persist_config=False,
            )
        else:
            loaders.load_incluster_config(client_configuration=configuration)
    except config.ConfigException as error:
        raise BackendUnavailable(
            f"no cluster is known ({' '.join(str(error).split())}): run the executor in a pod with "
            "a service account, or name a file with executor.kubernetes.kubeconfig"
        ) from error
    found = cast("Any", configuration)
    context = _ssl_context(found) if found.host.startswith("https:") else None
    http = AsyncClient(
        base_url=found.host,
        verify=context or False,
        proxy=found.proxy or None,
        trust_env=False,
        timeout=Timeout(_ANSWER_DEADLINE_S, connect=_CONNECT_DEADLINE_S),
    )
    return _Server(configuration, str(found.host), context, http)


def _silent(why: str) -> BackendUnavailable:
    return BackendUnavailable(f"no Kubernetes API server answers: {why}")


async def _open_stream(server: _Server, path: str) -> ExecStream:
    """Connect; EngineRefused with the server's message, or OSError."""
    from websockets.asyncio.client import connect
    from websockets.exceptions import InvalidHandshake, InvalidStatus
    from websockets.typing import Subprotocol

    found = cast("Any", server.configuration)
    tls: Any = {"ssl": server.ssl_context} if server.ssl_context else {}
    if tls and found.tls_server_name:
        tls["server_hostname"] = found.tls_server_name
    try:
        socket = await connect(
            f"ws{server.host.removeprefix('http')}{path}",
            subprotocols=[Subprotocol(PROTOCOL)],
            additional_headers=await server.headers(),
            compression=None,
            proxy=found.proxy or None,
            open_timeout=None,
            ping_interval=_PING_INTERVAL_S,
            ping_timeout=_PING_TIMEOUT_S,
            close_timeout=_CLOSE_DEADLINE_S,
            max_size=_MAX_MESSAGE_BYTES,
            **tls,
        )
    except InvalidStatus as error:
        response = error.response
        said = bytes(response.body or b"").decode(errors="replace")
        raise EngineRefused(response.status_code, message_of(said)) from error
    except InvalidHandshake as error:
        raise OSError(str(error)) from error
    return ExecStream(socket)


def _ssl_context(configuration: Any) -> ssl.SSLContext:
    context = ssl.create_default_context(
        cafile=configuration.ssl_ca_cert or None, cadata=configuration.ca_cert_data or None
    )
    if configuration.cert_file:
        context.load_cert_chain(configuration.cert_file, configuration.key_file or None)
    if not configuration.verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def part(thing: Json, *path: str) -> Json:
    """The object at the end of the path; empty if there is none."""
    for name in path:
        thing = thing.get(name) or {}
    return thing


def parts(thing: Json, *path: str) -> list[Json]:
    """The list of objects at the end of the path; empty if there is none."""
    *outer, last = path
    found: list[Json] = part(thing, *outer).get(last) or []
    return found


def message_of(text: str) -> str:
    """The message of a Status object, or the text of another answer, in one line."""
    try:
        content: Any = json.loads(text)
    except ValueError:
        content = text
    if isinstance(content, dict):
        text = str(cast("dict[str, Any]", content).get("message") or text)
    return " ".join(text.split()) or "no reason was given"
