"""What `hermes setup` asks of model endpoints: who serves models, and whether a key is accepted."""

from msgspec.structs import replace
from pydantic import SecretStr

from agent_service.assembly.logins import opened_store
from agent_service.assembly.models import credentials, endpoint_settings, model_catalog
from agent_service.config import AgentConfig
from agent_service.models.access import access_of
from agent_service.models.catalog import ModelInfo
from agent_service.models.discovery import discover_local, served_model
from agent_service.models.endpoint_models import check_key, list_models
from agent_service.models.endpoints import configured_endpoint, missing_endpoint
from agent_service.records.model_errors import InvalidEndpoint, ModelError
from services.clock import SystemClock
from services.config.settings import Settings
from services.errors import FailedPrecondition
from services.runtime.checks import ModelOffer, OfferedModel

TIMEOUT_S = 15.0


async def local_servers() -> tuple[ModelOffer, ...]:
    """Return the model servers of this machine."""
    servers = await discover_local()
    return tuple(ModelOffer(found.name, found.base_url, found.models[0]) for found in servers)


async def offered_models(
    settings: Settings, provider: str, base_url: str, key: str
) -> tuple[OfferedModel, ...]:
    """List an endpoint's models; FailedPrecondition says why it does not accept the key."""
    config, clock = settings.load(AgentConfig), SystemClock()
    usual, given = endpoint_settings(settings, config), SecretStr(key)
    asked = replace(usual, provider=provider, base_url=base_url, api_key=given, model="", api="")
    if key:
        asked = replace(asked, keys={**usual.keys, provider: (given,)})
        if place := usual.places.get(provider):
            asked = replace(asked, places={**usual.places, provider: replace(place, api_key=given)})
    try:
        endpoint = configured_endpoint(asked)
        if endpoint is None:
            raise FailedPrecondition(missing_endpoint(str(settings.home.env)))
        async with opened_store(settings, config) as store:
            access = access_of(endpoint, credentials(store, config, clock), clock)
            reached = await access.current()
        await check_key(reached, TIMEOUT_S)
        listed = await list_models(reached, TIMEOUT_S)
    except (InvalidEndpoint, ModelError) as error:
        raise FailedPrecondition(str(error)) from error
    catalog = model_catalog(settings, config)
    await catalog.open()
    ordered = sorted(listed, key=lambda info: info.id != endpoint.model)
    return tuple(_offered(info, catalog.find(info.id)) for info in ordered)


async def window_of(base_url: str, key: str, model: str) -> int:
    """Return the tokens of context that a local server gives a model; 0 if unknown."""
    return (await served_model(base_url, SecretStr(key), model)).window


def _offered(told: ModelInfo, known: ModelInfo) -> OfferedModel:
    price = told.price or known.price
    paid = (price.input, price.output) if price else None
    return OfferedModel(told.id, told.window or known.window, paid)
