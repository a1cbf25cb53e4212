"""Finds a model before services start, and reports what runs after it."""

import sys
from collections.abc import Callable

from hermes.executor.v1 import sandbox_pb2
from hermes.executor.v1.sandbox_pb2_grpc import SandboxServiceStub
from services.cli.console import complain, tell
from services.cli.startup import imported, keep
from services.config.settings import Settings, load_settings
from services.errors import FailedPrecondition
from services.rpc.channels import Channels
from services.runtime.checks import ModelChoice, ModelOffer

MODEL_CHOICE = "agent_service.assembly.checks:model_choice"
"""Knows the available models."""

DEMO = "To choose a model step by step: hermes setup\nTo try Hermes without a model: hermes demo"


class NoModel(FailedPrecondition):
    """There is no model to talk to; the message says what to set."""


async def with_model(settings: Settings, *, may_ask: bool = True) -> Settings:
    """Return settings with a model, a local one only if a person agrees; raises NoModel."""
    choice = await _choice(settings)
    if choice.configured:
        return settings
    for offer in choice.offers:
        described = f"{offer.name} runs at {offer.base_url} with {offer.model}"
        if not (may_ask and _sees_questions()):
            use = f"use it with: HERMES_BASE_URL={offer.base_url}"
            raise NoModel(f"no model is set; {described}; {use}")
        if _agrees(f"{described}. Use it?"):
            return _chosen(settings, offer)
    raise NoModel(f"{choice.advice}\n{DEMO}")


def or_demo(talk: Callable[[], int]) -> int:
    """Open a chat; without a model, offer the demo instead."""
    try:
        return talk()
    except NoModel as missing:
        complain(missing.message)
    if not _agrees("Start the demo now?"):
        return 1
    return imported("services.cli.demo:demonstrate")()


def _sees_questions() -> bool:
    """Return whether a person can see and answer a question: standard output may be a pipe."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def _agrees(question: str) -> bool:
    if not _sees_questions():
        return False
    sys.stderr.write(f"{question} [Y/n] ")
    sys.stderr.flush()
    line = sys.stdin.readline()
    return line.endswith("\n") and line.strip().lower() in ("", "y", "yes")


def _chosen(settings: Settings, offer: ModelOffer) -> Settings:
    settings.home.create()
    keep(settings, "HERMES_BASE_URL", offer.base_url)
    path = keep(settings, "HERMES_MODEL", offer.model)
    complain(f"saved in {path}")
    return load_settings(settings.flags, settings.environ)


async def _choice(settings: Settings) -> ModelChoice:
    return await imported(MODEL_CHOICE)(settings)


async def introduce(
    settings: Settings, channels: Channels, tell: Callable[[str], None] = tell
) -> None:
    """Report what runs."""
    choice, chosen = await _choice(settings), await _backend(channels)
    model = (choice.configured or choice.advice).replace("\n", "\n         ")
    tell(f"model    {model}")
    tell(f"sandbox  {chosen.name}: {chosen.choice_reason}")
    if message := _remark(settings, chosen):
        tell(f"         {message}")


async def warn_of_host(settings: Settings, channels: Channels) -> None:
    """Warn if commands run on a machine itself, or if that was requested but is not in effect."""
    if message := _remark(settings, await _backend(channels)):
        complain(message)


async def _backend(channels: Channels) -> sandbox_pb2.BackendCapabilities:
    stub = SandboxServiceStub(channels.to("executor"))
    answer = await stub.GetCapabilities(sandbox_pb2.GetCapabilitiesRequest())
    return answer.backends[0]


def _remark(settings: Settings, chosen: sandbox_pb2.BackendCapabilities) -> str:
    """Return a remark about the sandbox in use, or empty."""
    if chosen.isolation == sandbox_pb2.ISOLATION_LEVEL_NONE:
        return f"commands run without a sandbox: {chosen.detail}"
    return next((f"{told}; {chosen.name} is used instead" for told in settings.not_on_host()), "")
