"""How a stream gets to the API server: with the trust and the token that its client has."""

import ssl
from typing import TYPE_CHECKING, Any, cast

from executor_service.backends.kubernetes.reading import message_of
from executor_service.backends.kubernetes.stream import PROTOCOLS, ExecStream
from executor_service.errors import EngineRefused
from services.discreet import Discreet

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

_PING_INTERVAL_S = 20.0
_PING_TIMEOUT_S = 10.0
_CLOSE_DEADLINE_S = 1.0
_MAX_MESSAGE_BYTES = 4 * 1024 * 1024


class Approach(Discreet, frozen=True):
    """One way there, good for one connection."""

    unshown = ("headers",)

    url: str
    headers: dict[str, str]
    ssl_context: ssl.SSLContext | None
    server_name: str | None
    proxy: str | None


def approach_to(client: "ApiClient", path: str) -> Approach:
    """The way to a path of the API server. Reads files."""
    configuration = cast("Any", client).configuration
    token = configuration.auth_settings().get("BearerToken")
    url = f"{configuration.host}{path}"
    return Approach(
        url,
        {"Authorization": token["value"]} if token else {},
        _ssl_context(configuration) if url.startswith("https:") else None,
        configuration.tls_server_name or None,
        configuration.proxy or None,
    )


async def open_stream(approach: Approach) -> ExecStream:
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
