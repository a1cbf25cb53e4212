"""What the agent needs to work, for `hermes doctor` and the first start."""

from agent_service.config import AgentConfig
from agent_service.models.discovery import discover_local
from agent_service.models.endpoints import (
    Api,
    Endpoint,
    configured_endpoint,
    listed_by,
    missing_endpoint,
)
from agent_service.models.errors import EndpointError
from services.checks import Check, ModelChoice, ModelOffer, Verdict
from services.config import Settings
from services.errors import InvalidArgument

LISTING_TIMEOUT_S = 5.0


async def model_choice(settings: Settings) -> ModelChoice:
    """Whether a model is configured, and otherwise which local servers there are.

    Fails with InvalidArgument when what is configured cannot work.
    """
    try:
        endpoint = configured_endpoint(settings.load(AgentConfig).model.endpoint)
    except EndpointError as error:
        raise InvalidArgument(str(error)) from error
    configured = "" if endpoint is None else _named(endpoint)
    servers = () if configured else await discover_local()
    offers = tuple(ModelOffer(found.name, found.base_url, found.models[0]) for found in servers)
    return ModelChoice(configured, offers, missing_endpoint(str(settings.home.env)))


async def checks(settings: Settings) -> list[Check]:
    """The model endpoint, and who approves commands."""
    config = settings.load(AgentConfig)
    return [await _endpoint(settings, config), _approvals(config)]


async def _endpoint(settings: Settings, config: AgentConfig) -> Check:
    try:
        endpoint = configured_endpoint(config.model.endpoint)
    except EndpointError as error:
        return Check("model", Verdict.FAILED, str(error))
    if endpoint is None:
        return Check("model", Verdict.FAILED, missing_endpoint(str(settings.home.env)))
    models = await listed_by(endpoint, LISTING_TIMEOUT_S)
    return _listed(endpoint, models)


def _named(endpoint: Endpoint) -> str:
    return f"{endpoint.model or 'its first model'} at {endpoint.shown_url}"


def _spoken(endpoint: Endpoint) -> str:
    usual = endpoint.api is Api.CHAT_COMPLETIONS
    return "" if usual else f", {endpoint.api.value.replace('_', ' ')}"


def _listed(endpoint: Endpoint, models: tuple[str, ...]) -> Check:
    if not models:
        return Check(
            "model",
            Verdict.FAILED,
            f"{endpoint.shown_url} does not list its models: check that it runs, its URL, "
            f"and {endpoint.key_name}.",
        )
    if endpoint.model and endpoint.model not in models:
        return Check(
            "model",
            Verdict.NOTE,
            f"{endpoint.shown_url} answers, but does not list {endpoint.model}; it may know it "
            "all the same, else set HERMES_MODEL.",
        )
    name = endpoint.model or models[0]
    return Check(
        "model",
        Verdict.OK,
        f"{name} at {endpoint.shown_url} (by {endpoint.source}{_spoken(endpoint)})",
    )


_UNATTENDED = {"deny": "are not run", "wait": "wait", "halt": "end their work"}


def _asked(config: AgentConfig) -> str:
    where = "" if config.approvals.sandboxed == "ask" else " whose harm no sandbox holds"
    first = "a model, then a person," if config.approvals.mode == "smart" else "a person"
    jobs = _UNATTENDED[config.approvals.unattended]
    return f"{first} is asked before dangerous commands{where}; those of jobs and subagents {jobs}"


def _approvals(config: AgentConfig) -> Check:
    if config.approvals.mode == "off":
        return Check(
            "approvals",
            Verdict.NOTE,
            "nobody is asked before a dangerous command runs in the sandbox; "
            "to be asked: hermes config set approvals.mode manual",
        )
    return Check("approvals", Verdict.OK, _asked(config))
