"""Builds the agent's models: endpoints, keys, logins, fallbacks and the catalog."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from msgspec.structs import replace

from agent_service.assembly.core import Core
from agent_service.config import AgentConfig
from agent_service.config.endpoints import (
    TRANSCRIPTION,
    AuxiliaryModel,
    auxiliaries,
    fallbacks,
    route_of,
)
from agent_service.models.access import access_of
from agent_service.models.catalog import Catalog
from agent_service.models.configured_model import CallSettings, ConfiguredModel, provider_of
from agent_service.models.consult import Consult
from agent_service.models.discovery import fetch_models
from agent_service.models.endpoints import (
    Api,
    Endpoint,
    EndpointSettings,
    configured_endpoint,
    missing_endpoint,
)
from agent_service.models.fallback import USUAL, Chain, Route, RoutedModel
from agent_service.models.instrumented_model import InstrumentedModel, ModelMetrics
from agent_service.models.media.transcribers import (
    Transcriber,
    elevenlabs_transcriber,
    local_transcriber,
)
from agent_service.models.oauth.credentials import Credentials
from agent_service.models.oauth.store import LoginFile, LoginStore
from agent_service.models.openrouter import FLASH_MODEL, AppIdentity
from agent_service.models.parts import ModelParts
from agent_service.models.pictures import PictureModel
from agent_service.models.provider import Provider
from agent_service.records.model_errors import InvalidEndpoint, RetryPolicy
from agent_service.storage import uploads
from agent_service.storage.logins import LoginRows
from services.clock import Clock
from services.config.settings import Settings
from services.database import Database
from services.database.leases import new_owner
from services.errors import FailedPrecondition
from services.runtime.config import ServiceConfig
from services.runtime.logins import PROVIDERS

COMPRESSION = "compression"
"""The task of summarizing long conversations."""


def model_parts(core: Core) -> ModelParts:
    """Build the models without opening anything."""
    settings, config, database, clock = core.settings, core.config, core.database, core.clock
    logins = login_store(settings, config, database)
    connect = partial(_connect, config, credentials(logins, config, clock), clock)
    catalog = model_catalog(settings, config)
    missing, learn = missing_endpoint(str(settings.home.env)), catalog.learn_window
    first = ConfiguredModel(endpoint_settings(settings, config), connect, missing, learn)
    chain, others = _chain(core, connect, learn)
    routed = RoutedModel(first, others)
    configured = {route.model for route in chain.routes} | {
        one.model for one in config.tasks.values()
    }

    def is_known(model: str) -> bool:
        is_ours = model in configured or model == first.configured_name
        return is_ours or bool(catalog.find(model).source)

    metrics = ModelMetrics.make(core.meter, is_known)

    async def load(digests: Sequence[str]) -> Mapping[str, bytes]:
        return await database.read(lambda conn: uploads.read_all(conn, digests))

    seeing = PictureModel(routed, lambda model: bool(catalog.find(model).sees), load)
    priced = InstrumentedModel(seeing, core.redactor, catalog, metrics, clock)
    consult = Consult(priced, first.default_name, config.model.max_tokens)
    notes = notes_route(settings, config)

    def is_local(route: str) -> bool:
        return others.get(route, first).is_local

    return ModelParts(first, routed, chain, catalog, priced, consult, is_local, notes)


def model_catalog(settings: Settings, config: AgentConfig) -> Catalog:
    """The catalogue of models with what the settings say of them; it is not open yet."""
    return Catalog(
        settings.home.state / "models.json",
        partial(fetch_models, config.model.catalog_url),
        {name: told.override for name, told in config.models.items()},
    )


def endpoint_settings(settings: Settings, config: AgentConfig) -> EndpointSettings:
    """The settings that choose the endpoint, with the base URLs of all providers."""
    elsewhere = (*config.fallback, *config.tasks.values())
    names = {config.model.provider, *(one.provider for one in elsewhere)}
    places = config.providers.places(names, partial(_variable, settings))
    return replace(config.model.endpoint, places=places)


def notes_route(settings: Settings, config: AgentConfig) -> Route:
    """The route to the model that writes notes; without a model it is the conversation's own.

    The default is a small OpenRouter model, but only for conversations that already go there.
    """
    asked = config.auxiliary.get(COMPRESSION, AuxiliaryModel())
    if asked.is_chosen:
        return route_of(config.auxiliary, COMPRESSION)
    if config.compression.summary_model or config.model.providers_allowed:
        return Route(model=config.compression.summary_model)
    try:
        endpoint = configured_endpoint(endpoint_settings(settings, config))
    except InvalidEndpoint:
        return USUAL
    goes_there = endpoint is not None and endpoint.provider == "openrouter"
    return Route(model=FLASH_MODEL) if goes_there else USUAL


def credentials(
    store: LoginStore, config: AgentConfig, clock: Clock
) -> Callable[[str], Credentials]:
    """The credentials by provider."""
    login = config.model.login
    found = {name: Credentials(login.issuer(name, clock), store, clock) for name in PROVIDERS}
    return found.__getitem__


def _connect(
    config: AgentConfig, logins: Callable[[str], Credentials], clock: Clock, endpoint: Endpoint
) -> Provider:
    calling = CallSettings(
        RetryPolicy(max_retries=config.model.max_retries),
        AppIdentity(config.model.app_title, config.model.app_url),
        config.model.cache_ttl,
        config.model.reasoning_effort,
        config.model.providers_allowed,
        config.model.logprobs,
    )
    return provider_of(endpoint, calling, access_of(endpoint, logins, clock))


def _chain(
    core: Core, connect: Callable[[Endpoint], Provider], learn: Callable[[str, int], None]
) -> tuple[Chain, Mapping[str, ConfiguredModel | Transcriber]]:
    settings, config = core.settings, core.config
    variable, main = partial(_variable, settings), endpoint_settings(settings, config)
    others = fallbacks(config.fallback, main, variable)
    tasks = config.tasks
    heard = route_of(tasks, TRANSCRIPTION).name or None
    models: dict[str, ConfiguredModel | Transcriber] = {
        one.route.name: ConfiguredModel(
            one.endpoint,
            lambda endpoint, one=one: connect(
                replace(
                    endpoint,
                    key_name=one.key_name or endpoint.key_name,
                    api=Api.TRANSCRIPTIONS if one.route.name == heard else endpoint.api,
                )
            ),
            one.missing,
            learn,
        )
        for one in (*others, *auxiliaries(tasks, main, variable))
    }
    listens = tasks.get(TRANSCRIPTION, AuxiliaryModel()).provider
    if heard and listens == "elevenlabs":
        models[heard] = elevenlabs_transcriber(config.speech.elevenlabs)
    elif heard and listens == "local":
        models[heard] = local_transcriber()
    return Chain([one.route for one in others], core.clock), models


def _variable(settings: Settings, name: str) -> str:
    found = settings.variable(name) or settings.secret_file(name)
    return "" if found is None else str(found.value)


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
