"""How to talk to a Kubernetes API server: calls through its client in threads, streams without any.

The client blocks and is slow to import, so it is loaded by the first call and runs in one small
pool of threads. Streams last as long as a box and must not hold a thread: they are WebSockets over
asyncio, which use the address, the trust and the token that the client has loaded.
"""

import asyncio
import contextlib
import json
import os
import ssl
import threading
from collections.abc import AsyncGenerator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast
from urllib.parse import urlencode

from msgspec import Struct

from executor_service.backends.kubernetes.stream import PROTOCOLS, ExecStream
from executor_service.config import KubernetesConfig
from executor_service.errors import BackendUnavailable, EngineRefused
from services.discreet import Discreet

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

T = TypeVar("T")
Json = dict[str, Any]
"""An object of the API, which leaves out what is empty."""

CALL_DEADLINE_S = 30.0
_CONNECT_DEADLINE_S = 5.0
_ANSWER_DEADLINE_S = 10.0
_THREADS = 8
_FIRST_PAUSE_S = 0.2
_PING_INTERVAL_S = 20.0
_PING_TIMEOUT_S = 10.0
_CLOSE_DEADLINE_S = 1.0
_MAX_MESSAGE_BYTES = 4 * 1024 * 1024

RAW = {
    "_preload_content": False,
    "_request_timeout": (_CONNECT_DEADLINE_S, _ANSWER_DEADLINE_S),
}
"""Keyword arguments of every call: the answer as it came, within a deadline."""


class Apis(Struct, frozen=True):
    """The parts of the API that boxes need."""

    core: Any
    networking: Any
    authorization: Any
    version: Any


class Cluster:
    """One API server; owns the threads that its client runs in."""

    def __init__(self, config: KubernetesConfig) -> None:
        self._config = config
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="kubernetes")
        self._lock = threading.Lock()
        self._client: ApiClient | None = None
        self._apis: Apis | None = None

    async def call(self, job: Callable[[Apis], Any], deadline_s: float = CALL_DEADLINE_S) -> Any:
        """Run one call in a thread: its JSON answer; EngineRefused, or BackendUnavailable.

        What the server puts off because it is busy (429) is asked again.
        """
        pause_s = _FIRST_PAUSE_S
        async with self._answering(deadline_s):
            while True:
                try:
                    return await self._in_thread(lambda: self._run(job))
                except EngineRefused as error:
                    if error.status != HTTPStatus.TOO_MANY_REQUESTS:
                        raise
                await asyncio.sleep(pause_s)
                pause_s *= 2

    async def host(self) -> str:
        """Where the API server is."""
        async with self._answering(CALL_DEADLINE_S):
            client = await self._in_thread(self._loaded)
        return str(cast("Any", client).configuration.host)

    async def exec(
        self, namespace: str, pod: str, container: str, command: Sequence[str]
    ) -> ExecStream:
        """Start a command in a pod and take its streams over; raises as call does."""
        query = [("container", container), *((name, "true") for name in ("stdin", "stdout"))]
        query += [("stderr", "true"), *(("command", part) for part in command)]
        path = f"/api/v1/namespaces/{namespace}/pods/{pod}/exec?{urlencode(query)}"
        async with self._answering(CALL_DEADLINE_S):
            # A token may have to be fetched anew.
            approach = await self._in_thread(lambda: _approach(self._loaded(), path))
            return await _open_stream(approach)

    async def _in_thread(self, job: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._pool, job)

    def _loaded(self) -> "ApiClient":
        from kubernetes.config import ConfigException

        with self._lock:
            if self._client is None:
                try:
                    self._client = _open_client(self._config)
                except ConfigException as error:
                    raise BackendUnavailable(_no_cluster(str(error))) from error
            return self._client

    def _run(self, job: Callable[[Apis], Any]) -> Any:
        from kubernetes import client as apis
        from kubernetes.client.exceptions import ApiException
        from urllib3.exceptions import HTTPError

        client = self._loaded()
        if self._apis is None:
            self._apis = Apis(
                apis.CoreV1Api(client),
                apis.NetworkingV1Api(client),
                apis.AuthorizationV1Api(client),
                apis.VersionApi(client),
            )
        try:
            return json.loads(job(self._apis).data)
        except ApiException as error:
            answer = cast("Any", error)
            if answer.status:
                raise EngineRefused(int(answer.status), message_of(answer.body or "")) from error
            # TLS failed.
            raise OSError(" ".join(str(answer.reason).split())) from error
        except (HTTPError, ValueError) as error:
            raise OSError(str(error)) from error

    @contextlib.asynccontextmanager
    async def _answering(self, deadline_s: float) -> AsyncGenerator[None, None]:
        """Turn silence of any kind into BackendUnavailable."""
        try:
            async with asyncio.timeout(deadline_s):
                yield
        except TimeoutError as error:
            raise _silent(f"no answer within {deadline_s:g} s") from error
        except ImportError as error:
            raise BackendUnavailable(
                f"the package {error.name} is missing: pip install 'hermes-services[kubernetes]'"
            ) from error
        except OSError as error:
            raise _silent(str(error)) from error

    async def close(self) -> None:
        """Let go of connections and threads; a call that hangs is left to its deadline."""
        if self._client is not None:
            cast("Any", self._client).rest_client.close()
        self._pool.shutdown(wait=False, cancel_futures=True)


def _open_client(chosen: KubernetesConfig) -> "ApiClient":
    """A client of the cluster that is named. Imports and reads files."""
    from kubernetes import config
    from kubernetes.client import ApiClient, Configuration

    named = chosen.kubeconfig.split(os.pathsep)
    if chosen.kubeconfig and not any(Path(file).expanduser().is_file() for file in named):
        raise BackendUnavailable(
            f"executor.kubernetes.kubeconfig: there is no file {chosen.kubeconfig}"
        )
    # Else a proxy that the environment names would come between.
    configuration = Configuration(proxy="", no_proxy="", retries=cast("Any", False))
    loaders = cast("Any", config)
    if chosen.kubeconfig or chosen.context:
        loaders.load_kube_config(
            chosen.kubeconfig or None,
            chosen.context or None,
            client_configuration=configuration,
            persist_config=False,
        )
    else:
        loaders.load_incluster_config(client_configuration=configuration)
    return ApiClient(configuration)


def _silent(why: str) -> BackendUnavailable:
    return BackendUnavailable(f"no Kubernetes API server answers: {why}")


def _no_cluster(why: str) -> str:
    return (
        f"no cluster is known ({' '.join(why.split())}): run the executor in a pod with a service "
        "account, or name a file with executor.kubernetes.kubeconfig"
    )


class _Approach(Discreet, frozen=True):
    """One way there, good for one connection."""

    unshown = ("headers",)

    url: str
    headers: dict[str, str]
    ssl_context: ssl.SSLContext | None
    server_name: str | None
    proxy: str | None


def _approach(client: "ApiClient", path: str) -> _Approach:
    """The way to a path of the API server. Reads files."""
    configuration = cast("Any", client).configuration
    token = configuration.auth_settings().get("BearerToken")
    url = f"{configuration.host}{path}"
    return _Approach(
        url,
        {"Authorization": token["value"]} if token else {},
        _ssl_context(configuration) if url.startswith("https:") else None,
        configuration.tls_server_name or None,
        configuration.proxy or None,
    )


async def _open_stream(approach: _Approach) -> ExecStream:
    """Connect; EngineRefused with what the server says, or OSError."""
    from websockets.asyncio.client import connect
    from websockets.exceptions import InvalidHandshake, InvalidStatus
    from websockets.typing import Subprotocol

    tls = {"ssl": approach.ssl_context} if approach.ssl_context else {}
    if tls and approach.server_name:
        tls["server_hostname"] = cast("Any", approach.server_name)
    try:
        socket = await connect(
            f"ws{approach.url.removeprefix('http')}",
            subprotocols=[Subprotocol(name) for name in PROTOCOLS],
            additional_headers=approach.headers,
            compression=None,
            proxy=approach.proxy,
            open_timeout=None,
            ping_interval=_PING_INTERVAL_S,
            ping_timeout=_PING_TIMEOUT_S,
            close_timeout=_CLOSE_DEADLINE_S,
            max_size=_MAX_MESSAGE_BYTES,
            **cast("Any", tls),
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
    """The object at the end of the path; empty where there is none."""
    for name in path:
        thing = thing.get(name) or {}
    return thing


def parts(thing: Json, *path: str) -> list[Json]:
    """The list of objects at the end of the path; empty where there is none."""
    *outer, last = path
    found: list[Json] = part(thing, *outer).get(last) or []
    return found


def message_of(text: str) -> str:
    """What a Status object says, or the text of another answer, in one line."""
    try:
        content: Any = json.loads(text)
    except ValueError:
        content = text
    if isinstance(content, dict):
        text = str(cast("dict[str, Any]", content).get("message") or text)
    return " ".join(text.split()) or "no reason was given"
