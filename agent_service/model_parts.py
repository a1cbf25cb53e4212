"""How the agent's models are put together: endpoints, keys and logins, the chain, the catalogue."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from agent_service.config import AgentConfig
from agent_service.config_auxiliary import auxiliaries
from agent_service.config_fallback import fallbacks
from agent_service.models.access import access_of
from agent_service.models.catalog import Catalog
from agent_service.models.configured import Calling, ConfiguredModel, provider_of
from agent_service.models.endpoints import Endpoint, missing_endpoint
from agent_service.models.fallback import Chain, Routed
from agent_service.models.listing import fetch_models
from agent_service.models.openrouter import AppIdentity
from agent_service.models.provider import Provider
from agent_service.models.retries import RetryPolicy
from agent_service.oauth.credentials import Credentials
from agent_service.oauth.store import LoginStore
from services.clock import Clock
from services.config import Settings
from services.logins import PROVIDERS


@dataclass(frozen=True, slots=True)
class ModelParts:
    """The models of a deployment."""

    first: ConfiguredModel
    """The configured one."""
    routed: Routed
    """All of them, by route."""
    chain: Chain
    catalog: Catalog


def model_parts(settings: Settings, config: AgentConfig, clock: Clock) -> ModelParts:
    """Puts the models together; nothing is opened yet."""
    connect = partial(_connect, config, credentials(settings, config, clock), clock)
    first = ConfiguredModel(
        config.model.endpoint, connect, missing_endpoint(str(settings.home.env))
    )
    chain, routed = _chain(settings, config, first, connect, clock)
    catalog = Catalog(
        settings.home.state / "models.json",
        partial(fetch_models, config.model.catalog_url),
        {name: told.override for name, told in config.models.items()},
    )
    return ModelParts(first, routed, chain, catalog)


def credentials(
    settings: Settings, config: AgentConfig, clock: Clock
) -> Callable[[str], Credentials]:
    """The logins of the home, by their providers."""
    store = LoginStore(settings.home.auth, settings.redactor())
    login = config.model.login
    found = {name: Credentials(login.issuer(name, clock), store, clock) for name in PROVIDERS}
    return found.__getitem__


def _connect(
    config: AgentConfig,
    logins: Callable[[str], Credentials],
    clock: Clock,
    endpoint: Endpoint,
) -> Provider:
    calling = Calling(
        RetryPolicy(max_retries=config.model.max_retries),
        AppIdentity(config.model.app_title, config.model.app_url),
        config.model.cache_ttl,
        config.model.reasoning_effort,
        config.model.providers_allowed,
    )
    return provider_of(endpoint, calling, access_of(endpoint, logins, clock))


def _chain(
    settings: Settings,
    config: AgentConfig,
    first: ConfiguredModel,
    connect: Callable[[Endpoint], Provider],
    clock: Clock,
) -> tuple[Chain, Routed]:
    def variable(name: str) -> str:
        found = settings.variable(name) or settings.secret_file(name)
        return "" if found is None else str(found.value)

    others = fallbacks(config.fallback, config.model.endpoint, variable)
    models = {
        one.route.name: ConfiguredModel(
            one.endpoint,
            lambda endpoint, key_name=one.key_name: connect(
                replace(endpoint, key_name=key_name or endpoint.key_name)
            ),
            one.missing,
        )
        for one in (*others, *auxiliaries(config.auxiliary, config.model.endpoint, variable))
    }
    return Chain([one.route for one in others], clock), Routed(first, models)
