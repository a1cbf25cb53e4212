"""Messages of commands about expected failures."""

import grpc.aio

from services.cli.console import EXIT_FAILURE, EXIT_USAGE
from services.config.fields import ConfigError
from services.errors import HermesError, InvalidArgument, Reason, details_of, message_of

EXPECTED = (HermesError, grpc.aio.AioRpcError, UnicodeEncodeError)
"""Errors with a message for people; others are bugs and show a traceback."""


def explain(error: BaseException) -> str:
    """Return one line that says what is wrong and what to do."""
    if isinstance(error, grpc.aio.AioRpcError):
        return message_of(error)
    if isinstance(error, UnicodeEncodeError):
        return f"an argument, variable or path is not UTF-8 text: {error.object!r:.200}"
    return str(error)


def status_of(error: BaseException) -> int:
    """Return the exit status: whether the command line is wrong, or something has failed."""
    match error:
        case ConfigError():
            is_usage = any(problem.key.startswith("--") for problem in error.problems)
        case grpc.aio.AioRpcError():  # only the services parse schedules
            is_usage = details_of(error).reason == Reason.SCHEDULE_INVALID
        case _:
            is_usage = isinstance(error, InvalidArgument)
    return EXIT_USAGE if is_usage else EXIT_FAILURE


def in_short(error: grpc.aio.AioRpcError) -> str:
    """Return why a service does not answer, for use in brackets."""
    # gRPC reports a chain that ends with the cause, after a failed handshake followed by "OK".
    text = (error.details() or error.code().name).removesuffix(": OK")
    cause = text.rsplit(": ", 1)[-1]
    # The cause may be the end of a bracketed text.
    return cause.removesuffix("]") if cause.count("]") > cause.count("[") else cause


def remedy(service: str) -> str:
    """Return what to do about a service that does not answer."""
    return (
        f"start it with hermes serve {service}, start its container, "
        f"or correct HERMES_{service.upper()}_ADDRESS"
    )
