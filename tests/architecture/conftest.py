"""The first check of each process parses the whole repository, beside whatever else runs."""

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest

_FOLDER = Path(__file__).parent
_TIMEOUT_S = 300


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent == _FOLDER:
            item.add_marker(pytest.mark.timeout(_TIMEOUT_S))


@pytest.fixture(scope="session", autouse=True)
def no_collection_of_garbage() -> Iterator[None]:
    """Keep Python from looking through all syntax trees again and again."""
    gc.disable()
    yield
    gc.enable()
