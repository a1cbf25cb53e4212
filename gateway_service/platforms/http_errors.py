"""Errors of calls to platforms over HTTP."""

from collections.abc import Generator
from contextlib import contextmanager

from gateway_service.errors import OutcomeUnknown, Unreachable


@contextmanager
def translated(service: str) -> Generator[None]:
    """Raise httpx's errors as ours: Unreachable if nothing was done, else OutcomeUnknown."""
    import httpx

    try:
        yield
    except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
        # Not the error's own text, which may contain the URL with a secret.
        raise Unreachable(f"{service} cannot be reached ({type(error).__name__})") from None
    except httpx.HTTPError as error:
        raise OutcomeUnknown(f"{service} did not answer ({type(error).__name__})") from None
