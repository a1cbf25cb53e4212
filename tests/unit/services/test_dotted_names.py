"""What the command line finds by its name is there."""

import importlib

import pytest

from services.cli import config as config_command
from services.cli import first_run, process, startup
from services.cli.admin import doctor, setup, setup_platforms

NAMES = (
    *process.BUILDERS.values(),
    *doctor.CHECKS.values(),
    *(first_run.MODEL_CHOICE, config_command.ENDPOINT_PROBLEMS),
    *(setup.LOCAL_SERVERS, setup.OFFERED_MODELS, setup.WINDOW_OF, setup.SANDBOXES),
    setup_platforms.CHECKS,
)


@pytest.mark.parametrize("name", NAMES)
def test_what_is_named_can_be_called(name: str) -> None:
    module, _, function = name.partition(":")
    assert callable(getattr(importlib.import_module(module), function))


@pytest.mark.parametrize("name", startup.MODEL_MODULES)
def test_each_service_says_what_can_be_configured(name: str) -> None:
    assert importlib.import_module(name).MODELS
