"""Messages of commands about expected failures."""

import grpc.aio

from services.errors import HermesError, message_of

EXPECTED = (HermesError, grpc.aio.AioRpcError)
"""Errors with a message for people; others are bugs and show a traceback."""


def explain(error: BaseException) -> str:
    """Return one line that says what is wrong and what to do."""
    if isinstance(error, grpc.aio.AioRpcError):
        return message_of(error)
    return str(error)


def in_short(error: grpc.aio.AioRpcError) -> str:
    """Return why a service does not answer, for use in brackets."""
    # gRPC reports a chain that ends with the cause, after a failed handshake followed by "OK".
    told = (error.details() or error.code().name).removesuffix(": OK")
    cause = told.rsplit(": ", 1)[-1]
    # The cause may be the end of a bracketed text.
    return cause.removesuffix("]") if cause.count("]") > cause.count("[") else cause


def remedy(service: str) -> str:
    """Return what to do about a service that does not answer."""
    return (
        f"start it with hermes serve {service}, start its container, "
        f"or correct HERMES_{service.upper()}_ADDRESS"
    )
