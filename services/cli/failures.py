"""What a command says when something that can happen does."""

import grpc.aio

from services.errors import HermesError, message_of

EXPECTED = (HermesError, grpc.aio.AioRpcError)
"""Errors whose message is meant for a person; any other is a bug, and shows a traceback."""


def explain(error: BaseException) -> str:
    """One line that says what is wrong and what to do."""
    if isinstance(error, grpc.aio.AioRpcError):
        return message_of(error)
    return str(error)


def in_short(error: grpc.aio.AioRpcError) -> str:
    """Why somebody does not answer, to be said in brackets."""
    # gRPC tells the whole way to the cause, which comes last; after that of a handshake, an "OK".
    told = (error.details() or error.code().name).removesuffix(": OK")
    cause = told.rsplit(": ", 1)[-1]
    # Of what is told in brackets, the end.
    return cause.removesuffix("]") if cause.count("]") > cause.count("[") else cause


def remedy(service: str) -> str:
    """What to do about a service that does not answer."""
    return (
        f"start it with hermes serve {service}, start its container, "
        f"or correct HERMES_{service.upper()}_ADDRESS"
    )
