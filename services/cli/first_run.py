"""Finds a model to talk to before anything is started, and offers what is there."""

import importlib
import sys
from collections.abc import Awaitable, Callable

from services.checks import ModelChoice, ModelOffer
from services.cli.console import complain
from services.cli.startup import catalog
from services.config import Settings, load_settings
from services.config_edit import set_value
from services.errors import FailedPrecondition

MODEL_CHOICE = "agent_service.checks:model_choice"
"""Who knows which models there are."""

DEMO = "To see it work without a model: hermes demo"


class NoModel(FailedPrecondition):
    """There is no model to talk to; the message says what to set."""


async def model_of(settings: Settings) -> str:
    """The configured model and where it is, or what to set when there is none."""
    choice = await _ask_agent(settings)
    return choice.configured or choice.advice


async def with_model(settings: Settings) -> Settings:
    """The settings with a model; fails with what to set where there is none."""
    choice = await _ask_agent(settings)
    if choice.configured:
        return settings
    for offer in choice.offers:
        if _accepted(offer):
            return _chosen(settings, offer)
    raise NoModel(f"{choice.advice}\n{DEMO}")


def or_demo(talk: Callable[[], int]) -> int:
    """Open a chat; without a model, see the demo in its place if the person likes to."""
    try:
        return talk()
    except NoModel as missing:
        complain(missing.message)
    if not _agrees("Start it now?"):
        return 1
    return importlib.import_module("services.cli.demo").demonstrate()


def _accepted(offer: ModelOffer) -> bool:
    text = f"{offer.name} runs at {offer.base_url} with {offer.model}"
    if not sys.stdin.isatty():
        complain(f"{text}; use it with: HERMES_BASE_URL={offer.base_url}")
        return False
    return _agrees(f"{text}. Use it?")


def _agrees(question: str) -> bool:
    try:
        return input(f"{question} [Y/n] ").strip().lower() in ("", "y", "yes")
    except EOFError:
        return False


def _chosen(settings: Settings, offer: ModelOffer) -> Settings:
    """Keep the choice in the home, so that it is not asked for again."""
    models = catalog().models
    settings.home.create()
    set_value(settings.home, "HERMES_BASE_URL", offer.base_url, models)
    path = set_value(settings.home, "HERMES_MODEL", offer.model, models)
    complain(f"remembered in {path}")
    return load_settings(settings.flags, settings.environ)


def _ask_agent(settings: Settings) -> Awaitable[ModelChoice]:
    module, _, name = MODEL_CHOICE.partition(":")
    ask: Callable[[Settings], Awaitable[ModelChoice]] = getattr(
        importlib.import_module(module), name
    )
    return ask(settings)
