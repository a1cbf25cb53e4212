"""Checks of the agent's requirements, for `hermes doctor` and the first start."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

from msgspec.structs import replace
from pydantic import SecretStr

from agent_service.assembly.logins import opened_store
from agent_service.assembly.memory import honcho_config, why_unused
from agent_service.assembly.models import credentials, endpoint_settings, model_catalog
from agent_service.assembly.setup import local_servers
from agent_service.config import AgentConfig
from agent_service.config.models import ModelSettings
from agent_service.config.sessions import HonchoConfig
from agent_service.config.tools import BrowserConfig
from agent_service.models.access import access_of
from agent_service.models.catalog import SMALL_WINDOW
from agent_service.models.discovery import served_model
from agent_service.models.endpoint_models import check_key, list_models
from agent_service.models.endpoints import Api, Endpoint, configured_endpoint, missing_endpoint
from agent_service.models.oauth.credentials import Credentials
from agent_service.models.oauth.tokens import Login
from agent_service.profiles.memory.honcho import NAME, HonchoMemory
from agent_service.profiles.memory.provider import NOT_CHOSEN, ProviderFailed, Scope
from agent_service.records.model_errors import InvalidEndpoint, ModelError
from services.clock import SystemClock
from services.config.settings import Settings
from services.errors import FailedPrecondition, HermesError, InvalidArgument
from services.runtime.checks import Check, ModelChoice, Verdict
from services.runtime.logins import PROVIDERS

NAMING_TIMEOUT_S = 1.0
LISTING_TIMEOUT_S = 5.0

_UNPRICED = (
    "the price of {model} is not known, so the budget in US dollars stops it; set its price under "
    "models in config.yaml, limit tokens instead, or run: hermes config set budget.unpriced free"
)


async def model_choice(settings: Settings) -> ModelChoice:
    """The configured model, or else the local servers; InvalidArgument for wrong settings."""
    try:
        endpoint = configured_endpoint(endpoint_settings(settings, settings.load(AgentConfig)))
    except InvalidEndpoint as error:
        raise InvalidArgument(str(error)) from error
    configured = "" if endpoint is None else await _named(endpoint)
    offers = () if configured else await local_servers()
    return ModelChoice(configured, offers, missing_endpoint(str(settings.home.env)))


def endpoint_problems(settings: Settings) -> list[str]:
    """Return why the configured model cannot be used, as far as the settings show it."""
    try:
        configured_endpoint(endpoint_settings(settings, settings.load(AgentConfig)))
    except InvalidEndpoint as error:
        return [str(error)]
    return []


async def checks(settings: Settings) -> list[Check]:
    """Check the model endpoint and who approves commands."""
    config = settings.load(AgentConfig)
    try:
        async with opened_store(settings, config) as store:
            logins = credentials(store, config, SystemClock())
            found = [await _endpoint(settings, config, logins), *await _logins(settings, logins)]
    except HermesError as error:
        found = [Check("login", Verdict.FAILED, error.message)]
    found += [*await _budget(settings, config), _approvals(config), *await _memory(settings)]
    return [*found, *await _browser(config.browser)]


async def _memory(settings: Settings) -> list[Check]:
    config = await asyncio.to_thread(honcho_config, settings)
    if why_unused(config) == NOT_CHOSEN:
        return []
    why = await _why_no_honcho(config)
    verdict = Verdict.FAILED if why else Verdict.OK
    return [Check("memory", verdict, why or _answers(config))]


async def probe_honcho(settings: Settings, key: str, base_url: str) -> str:
    """Return what answers with a key at an address; FailedPrecondition if nothing does."""
    config = await asyncio.to_thread(honcho_config, settings)
    given = {"provider": NAME, "api_key": SecretStr(key), "base_url": base_url or config.base_url}
    config = config.model_copy(update=given)
    if why := await _why_no_honcho(config):
        raise FailedPrecondition(f"{why}; nothing was written")
    return f"{_answers(config)}."


def _answers(config: HonchoConfig) -> str:
    return f"Honcho answers, workspace {config.workspace}"


async def _why_no_honcho(config: HonchoConfig) -> str:
    if why := why_unused(config):
        return why
    try:
        async with asyncio.timeout(LISTING_TIMEOUT_S):
            await HonchoMemory(config.setting).block(Scope("default"))
    except TimeoutError:
        return f"Honcho did not answer within {LISTING_TIMEOUT_S:.0f} s"
    except ProviderFailed as error:
        return str(error).rstrip(".")
    return ""


async def _browser(config: BrowserConfig) -> list[Check]:
    """Check that something listens at the address of the browser that runs elsewhere."""
    parts = urlsplit(config.cdp_url.get_secret_value())
    if not parts.hostname:
        return []
    port = parts.port or (443 if parts.scheme in ("https", "wss") else 80)
    place = f"{parts.hostname}:{port}"  # the rest may be a secret
    try:
        async with asyncio.timeout(LISTING_TIMEOUT_S):
            _, writer = await asyncio.open_connection(parts.hostname, port)
    except OSError:  # TimeoutError is one
        advice = f"start it there with --remote-debugging-port={port}, or correct browser.cdp_url"
        told = f"the browser at {place} (browser.cdp_url) does not answer; {advice}"
        return [Check("browser", Verdict.FAILED, told)]
    writer.close()
    return [Check("browser", Verdict.OK, f"it answers at {place} (browser.cdp_url)")]


async def _endpoint(
    settings: Settings, config: AgentConfig, logins: Callable[[str], Credentials]
) -> Check:
    try:
        endpoint = configured_endpoint(endpoint_settings(settings, config))
    except InvalidEndpoint as error:
        return Check("model", Verdict.FAILED, str(error))
    if endpoint is None:
        return Check("model", Verdict.FAILED, missing_endpoint(str(settings.home.env)))
    try:
        reached = await access_of(endpoint, logins, SystemClock()).current()
        await check_key(reached, LISTING_TIMEOUT_S)
        listed = await list_models(reached, LISTING_TIMEOUT_S)
    except ModelError as error:
        return Check("model", Verdict.FAILED, str(error))
    models = tuple(model.id for model in listed)
    check, name = _listed(reached, models), reached.model or next(iter(models), "")
    if check.verdict is not Verdict.OK or not reached.is_local:
        return check
    told = config.models.get(name, ModelSettings()).window
    if not told:
        told = (await served_model(reached.base_url, reached.api_key, name)).window
    return _with_window(check, told)


async def _logins(settings: Settings, logins: Callable[[str], Credentials]) -> list[Check]:
    """A check for each login, with its expiry without renewal."""
    found: list[Check] = []
    for name, title in PROVIDERS.items():
        try:
            login = await logins(name).stored()
        except HermesError as error:
            return [Check("login", Verdict.FAILED, error.message)]
        if login is not None:
            found.append(_login(name, title, login))
    path = settings.home.auth
    if found and await asyncio.to_thread(_is_open, path):
        message = f"{path} can be read by others; make it yours alone: chmod 600 {path}"
        found.append(Check("login", Verdict.NOTE, message))
    return found


def _login(name: str, title: str, login: Login) -> Check:
    ends = login.bearer.expires_at
    until = f" until {ends.astimezone():%Y-%m-%d %H:%M}" if ends else ""
    if login.renewable:
        return Check("login", Verdict.OK, f"{title}: good{until}, then renewed by itself")
    if login.bearer.good_at(SystemClock().now()):
        again = f"then log in again: hermes login {name}"
        return Check("login", Verdict.NOTE, f"{title}: good{until}, {again}")
    return Check("login", Verdict.FAILED, f"{title}: it is over; run: hermes login {name}")


async def _budget(settings: Settings, config: AgentConfig) -> list[Check]:
    """Return a note if a budget in US dollars stops the model, as its price is unknown."""
    policy, endpoint = config.budget.policy, None
    with suppress(InvalidEndpoint):
        endpoint = configured_endpoint(endpoint_settings(settings, config))
    if not endpoint or not endpoint.model or endpoint.is_local or policy.unpriced_is_free:
        return []
    known = model_catalog(settings, config)
    await known.open()
    if known.find(endpoint.model).price is not None:
        return []
    if any(limit.micro_usd for limit in policy.limits.values()):
        return [Check("budget", Verdict.NOTE, _UNPRICED.format(model=endpoint.model))]
    return []


def _is_open(path: Path) -> bool:
    return path.exists() and bool(path.stat().st_mode & 0o077)


async def _named(endpoint: Endpoint) -> str:
    """Return the model in use, asking only a server on this machine."""
    model = endpoint.model
    if not model and endpoint.is_local:
        with suppress(ModelError):
            model = next((each.id for each in await list_models(endpoint, NAMING_TIMEOUT_S)), "")
    return f"{model or 'the first listed model'} at {endpoint.shown_url}"


def _spoken(endpoint: Endpoint) -> str:
    usual = endpoint.api is Api.CHAT_COMPLETIONS
    return "" if usual else f", {endpoint.api.value.replace('_', ' ')}"


def _listed(endpoint: Endpoint, models: tuple[str, ...]) -> Check:
    if not models:
        return Check(
            "model",
            Verdict.FAILED,
            f"{endpoint.shown_url} does not list its models: check its URL.",
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


def _with_window(check: Check, tokens: int) -> Check:
    if not tokens:
        return check
    message = f"{check.message}, {tokens:,} tokens of context"
    if tokens >= SMALL_WINDOW:
        return replace(check, message=message)
    few = (
        f"{message}: sessions get the lean tools, and long work is compressed often. Give it "
        f"{SMALL_WINDOW:,} or more where it runs (llama.cpp: --ctx-size; Ollama: "
        "OLLAMA_CONTEXT_LENGTH; LM Studio: Context Length)"
    )
    return Check(check.name, Verdict.NOTE, few)


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
