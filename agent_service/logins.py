"""What `hermes login` and `hermes logout` do, in the home of the agent."""

from collections.abc import AsyncGenerator

from agent_service.config import AgentConfig
from agent_service.model_parts import endpoint_settings
from agent_service.models.endpoints import configured_endpoint
from agent_service.models.errors import EndpointError
from agent_service.oauth import device_flow
from agent_service.oauth.store import LoginStore
from services.clock import Clock, SystemClock
from services.config import Settings
from services.logins import DeviceCode, LoggedIn, LoggedOut


async def log_in(
    settings: Settings, provider: str, clock: Clock | None = None
) -> AsyncGenerator[DeviceCode | LoggedIn]:
    """Yields a code, and when it has been confirmed that the login is kept.

    Fails with LoginFailed or LoginUnavailable.
    """
    clock, config = clock or SystemClock(), settings.load(AgentConfig)
    issuer = config.model.login.issuer(provider, clock)
    store = LoginStore(settings.home.auth, settings.redactor())
    asked = await issuer.begin()
    yield asked.shown
    login = await device_flow.confirmed(issuer, asked, clock)
    await device_flow.keep(issuer, login, store, clock)
    yield LoggedIn(store.path, login.access.expires_at, _configured(settings, config))


async def log_out(settings: Settings, provider: str, clock: Clock | None = None) -> LoggedOut:
    """Forgets the login."""
    clock, config = clock or SystemClock(), settings.load(AgentConfig)
    issuer = config.model.login.issuer(provider, clock)
    store = LoginStore(settings.home.auth, settings.redactor())
    return LoggedOut(*await device_flow.forget(issuer, store, clock))


def _configured(settings: Settings, config: AgentConfig) -> str:
    """The provider whose models the settings choose; empty where they choose none."""
    try:
        endpoint = configured_endpoint(endpoint_settings(settings, config))
    except EndpointError:
        return "another"
    return "" if endpoint is None else endpoint.provider
