"""Implements `hermes login` and `hermes logout`."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from agent_service.assembly.models import endpoint_settings, login_store
from agent_service.config import AgentConfig
from agent_service.models.endpoints import configured_endpoint
from agent_service.models.oauth.credentials import Credentials
from agent_service.models.oauth.store import LoginStore
from agent_service.records.model_errors import InvalidEndpoint
from agent_service.storage import migrations
from services.clock import Clock, SystemClock
from services.config.settings import Settings
from services.database import Database
from services.database.migrations import prepare
from services.runtime.config import ServiceConfig
from services.runtime.logins import DeviceCode, LoggedIn, LoggedOut


@asynccontextmanager
async def opened_store(settings: Settings, config: AgentConfig) -> AsyncGenerator[LoginStore]:
    """The login store, for a command that runs beside the agent."""
    url = settings.load(ServiceConfig).database.url_of("agent", settings.home)
    database = Database(url, "agent")
    store = login_store(settings, config, database)
    if not config.model.login.is_shared:
        yield store
        return
    async with database:
        await prepare(database, migrations)
        yield store


async def log_in(
    settings: Settings, provider: str, clock: Clock | None = None
) -> AsyncGenerator[DeviceCode | LoggedIn]:
    """Yields a code, then the stored login; raises LoginFailed or LoginUnavailable."""
    clock, config = clock or SystemClock(), settings.load(AgentConfig)
    issuer = config.model.login.issuer(provider, clock)
    async with opened_store(settings, config) as store:
        asked = await issuer.begin()
        yield asked.shown
        login = await Credentials(issuer, store, clock).log_in(asked)
        yield LoggedIn(store.place.name, login.access.expires_at, _configured(settings, config))


async def log_out(settings: Settings, provider: str, clock: Clock | None = None) -> LoggedOut:
    """Forget the login."""
    clock, config = clock or SystemClock(), settings.load(AgentConfig)
    issuer = config.model.login.issuer(provider, clock)
    async with opened_store(settings, config) as store:
        return LoggedOut(*await Credentials(issuer, store, clock).forget())


def _configured(settings: Settings, config: AgentConfig) -> str:
    try:
        endpoint = configured_endpoint(endpoint_settings(settings, config))
    except InvalidEndpoint:
        return "another"
    return "" if endpoint is None else endpoint.provider
