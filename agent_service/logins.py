"""Where logins are kept, and what `hermes login` and `hermes logout` do with them."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from agent_service.config import AgentConfig
from agent_service.model_parts import endpoint_settings
from agent_service.models.endpoints import configured_endpoint
from agent_service.models.errors import EndpointError
from agent_service.oauth import device_flow
from agent_service.oauth.login_file import LoginFile
from agent_service.oauth.store import LoginStore
from agent_service.storage import migrations
from agent_service.storage.logins import LoginRows
from agent_service.storage.schema import metadata
from services.clock import Clock, SystemClock
from services.config import Settings
from services.config_models import ServiceConfig
from services.database import Database
from services.errors import FailedPrecondition
from services.leases import new_owner
from services.logins import DeviceCode, LoggedIn, LoggedOut
from services.migrations import prepare

NEEDS_SERVER = (
    "HERMES_LOGIN_KEY is for replicas that share a PostgreSQL, and there is none: set "
    "HERMES_DATABASE_URL, or unset the key to keep logins in auth.json"
)


def login_store(settings: Settings, config: AgentConfig, database: Database) -> LoginStore:
    """The logins of the home, or those that all replicas share."""
    if not config.model.login.is_shared:
        return LoginStore(LoginFile(settings.home.auth), settings.redactor())
    if database.dialect == "sqlite":
        raise FailedPrecondition(NEEDS_SERVER)
    owner = new_owner(settings.load(ServiceConfig).instance)
    rows = LoginRows(database, owner, config.model.login.shared_key)
    return LoginStore(rows, settings.redactor())


@asynccontextmanager
async def opened_store(settings: Settings, config: AgentConfig) -> AsyncGenerator[LoginStore]:
    """The logins, for a command that runs beside the agent."""
    url = settings.load(ServiceConfig).database.url_of("agent", settings.home)
    database = Database(url, "agent")
    store = login_store(settings, config, database)
    if not config.model.login.is_shared:
        yield store
        return
    async with database:
        await prepare(database, metadata, migrations)
        yield store


async def log_in(
    settings: Settings, provider: str, clock: Clock | None = None
) -> AsyncGenerator[DeviceCode | LoggedIn]:
    """Yields a code, and when it has been confirmed that the login is kept.

    Fails with LoginFailed or LoginUnavailable.
    """
    clock, config = clock or SystemClock(), settings.load(AgentConfig)
    issuer = config.model.login.issuer(provider, clock)
    async with opened_store(settings, config) as store:
        asked = await issuer.begin()
        yield asked.shown
        login = await device_flow.confirmed(issuer, asked, clock)
        await device_flow.keep(issuer, login, store, clock)
        yield LoggedIn(store.place.name, login.access.expires_at, _configured(settings, config))


async def log_out(settings: Settings, provider: str, clock: Clock | None = None) -> LoggedOut:
    """Forgets the login."""
    clock, config = clock or SystemClock(), settings.load(AgentConfig)
    issuer = config.model.login.issuer(provider, clock)
    async with opened_store(settings, config) as store:
        return LoggedOut(*await device_flow.forget(issuer, store, clock))


def _configured(settings: Settings, config: AgentConfig) -> str:
    """The provider whose models the settings choose; empty where they choose none."""
    try:
        endpoint = configured_endpoint(endpoint_settings(settings, config))
    except EndpointError:
        return "another"
    return "" if endpoint is None else endpoint.provider
