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


async def with_model(settings: Settings, *, may_ask: bool = True) -> Settings:
    """The settings with a model; fails with what to set where there is none.

    A local server is taken only if a person agrees.
    """
    choice = await _ask_agent(settings)
    if choice.configured:
        return settings
    if choice.offers and not (may_ask and _sees_questions()):
        offer = choice.offers[0]
        raise NoModel(
            f"no model is set; {_described(offer)}; use it with: HERMES_BASE_URL={offer.base_url}"
        )
    for offer in choice.offers:
        if _agrees(f"{_described(offer)}. Use it?"):
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


def _described(offer: ModelOffer) -> str:
    return f"{offer.name} runs at {offer.base_url} with {offer.model}"


def _sees_questions() -> bool:
    """Whether a person can see a question and answer it: standard output may be for a script."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def _agrees(question: str) -> bool:
    if not _sees_questions():
        return False
    sys.stderr.write(f"{question} [Y/n] ")
    sys.stderr.flush()
    line = sys.stdin.readline()
    return line.endswith("\n") and line.strip().lower() in ("", "y", "yes")


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
