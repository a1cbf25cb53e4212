"""Which backend makes the boxes: decided once, at the start, and never changed for a weaker one."""

import logging
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from executor_service.backends.base import Backend, Capabilities
from executor_service.errors import BackendUnavailable

_log = logging.getLogger(__name__)


class Choice(Struct, frozen=True):
    """The backend, why it is this one, and what was found out about those that were tried."""

    backend: Backend
    capabilities: Capabilities
    reason: str
    others: tuple[Capabilities, ...] = ()


async def choose(
    configured: str,
    backends: Mapping[str, Callable[[], Backend]],
    automatic: Sequence[str],
    setting: str = "terminal.backend",
) -> Choice:
    """The configured backend; without one, the first of the automatic ones that can be used.

    Fails with BackendUnavailable, in one line that names the setting and says what to do.
    """
    if configured:
        return await _configured(configured, backends, setting)
    tried: list[Capabilities] = []
    for name in automatic:
        backend = backends[name]()
        found = await _probed(backend)
        if found.available:
            reason = "; ".join([f"{other.name} cannot be used ({other.reason})" for other in tried])
            reason = reason or "no backend is configured, and this one is preferred"
            _log.info("sandboxes are made by %s: %s", found.name, reason)
            return Choice(backend, found, reason, tuple(tried))
        await backend.close()
        tried.append(found)
    reasons = "; ".join(f"{found.name}: {found.reason}" for found in tried)
    raise BackendUnavailable(f"no sandbox backend can be used here: {reasons}")


async def _probed(backend: Backend) -> Capabilities:
    try:
        return await backend.probe()
    except BaseException:
        await backend.close()
        raise


async def _configured(
    name: str, backends: Mapping[str, Callable[[], Backend]], setting: str
) -> Choice:
    make = backends.get(name)
    if make is None:
        raise BackendUnavailable(
            f"{setting}: there is no backend {name!r}; choose one of "
            f"{', '.join(backends)}, or leave it out"
        )
    backend = make()
    found = await _probed(backend)
    if not found.available:
        await backend.close()
        raise BackendUnavailable(
            f"{setting}: {name} cannot be used: {found.reason} "
            "(another one is never taken in its place; leave it out to have one chosen)"
        )
    return Choice(backend, found, "it is configured")
