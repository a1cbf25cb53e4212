"""Where logins are kept."""

from agent_service.config import AgentConfig
from agent_service.oauth.store import LoginFile, LoginStore
from agent_service.storage.logins import LoginRows
from services.config import Settings
from services.config_models import ServiceConfig
from services.database import Database
from services.errors import FailedPrecondition
from services.leases import new_owner

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
