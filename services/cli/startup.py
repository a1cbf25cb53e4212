"""What every command does first: read the settings, and say what is odd about them."""

import argparse
import asyncio
import importlib
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from services.cli.console import complain
from services.config.catalog import ConfigCatalog, check_settings
from services.config.edit import set_value
from services.config.settings import Settings, load_settings
from services.home.paths import DEFAULT_PROFILE
from services.runtime.config import MODELS, ServiceConfig
from services.telemetry.logs import logging_to

_T = TypeVar("_T")

MODEL_MODULES = (
    "agent_service.config",
    "executor_service.config",
    "gateway_service.config",
    "scheduler_service.config",
)
"""Where the services say what they can be configured with, as `MODELS`."""


def imported(name: str) -> Any:
    """What a name such as `module:function` stands for."""
    module, _, attribute = name.partition(":")
    return getattr(importlib.import_module(module), attribute)


def catalog() -> ConfigCatalog:
    """Everything that can be configured."""
    models = list(MODELS)
    for name in MODEL_MODULES:
        models += imported(f"{name}:MODELS")
    return ConfigCatalog(models)


def load(arguments: argparse.Namespace) -> Settings:
    """The settings, checked; what is odd goes to standard error, what is wrong is raised.

    What takes the place of a sandbox that is none is said when it is known.
    """
    settings = load_settings(vars(arguments))
    if settings.home.name != DEFAULT_PROFILE:
        # HERMES_PROFILE names whose home it is as --profile does, and requests name the same.
        arguments.profile = settings.profile
    for notice in check_settings(settings, catalog()):
        complain(notice)
    return settings


@contextmanager
def logged(settings: Settings, service: str, file: Path | None = None) -> Generator[None]:
    """Write the process's log while inside, without secrets."""
    config = settings.load(ServiceConfig).log
    with logging_to(config, settings.redactor(), service=service, file=file):
        yield


def run_in_home(settings: Settings, work: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
    """Run what works in the home, which is made, and has the log."""
    settings.home.create()
    with logged(settings, "hermes", settings.home.logs / "hermes.log"):
        return asyncio.run(work())


def keep(settings: Settings, key: str, value: str) -> Path:
    """Set what a person has chosen; returns the file that has it."""
    return set_value(settings.home, key, value, catalog().models)
