"""What is killed: everything in one process, or one of four."""

from collections.abc import AsyncIterator, Iterator, Mapping

import pytest

from tests.chaos.crashes import RULES
from tests.e2e.backends import need_backend, sandboxed
from tests.e2e.deployment import Deployment, four_processes, one_process, running
from tests.e2e.model import ModelProcess, model_process
from tests.fakes.telegram import TOKEN, FakeTelegram, fake_telegram


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModelProcess]:
    """A model that asks for commands and for a program, and outlives every crash."""
    with model_process(tmp_path_factory.mktemp("model"), RULES) as process:
        yield process


@pytest.fixture(
    scope="module", params=["bubblewrap", pytest.param("docker", marks=pytest.mark.slow)]
)
def up(
    request: pytest.FixtureRequest, model: ModelProcess, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Deployment]:
    """`hermes up` on each backend, which every test kills and starts again."""
    backend = need_backend(request.param, tmp_path_factory.mktemp("probe"))
    folder = tmp_path_factory.mktemp(backend)
    with running(one_process(folder, model.url, sandboxed(backend))) as deployment:
        yield deployment


@pytest.fixture(scope="module")
def four(model: ModelProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """Four processes, of which every test kills one and starts it again."""
    need_backend("bubblewrap", tmp_path_factory.mktemp("probe"))
    folder = tmp_path_factory.mktemp("four")
    with running(four_processes(folder, model.url, sandboxed("bubblewrap"))) as deployment:
        yield deployment


@pytest.fixture
async def telegram() -> AsyncIterator[FakeTelegram]:
    async with fake_telegram() as server:
        yield server


@pytest.fixture
def environ(telegram: FakeTelegram) -> Mapping[str, str]:
    return {
        "TELEGRAM_BOT_TOKEN": TOKEN,
        "TELEGRAM_BASE_URL": telegram.url,
        "TELEGRAM_ALLOWED_USERS": "7",
    }


@pytest.fixture
def one(
    model: ModelProcess, environ: Mapping[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Deployment]:
    """`hermes up` with processes for boxes, the quickest to start again."""
    need_backend("bubblewrap", tmp_path_factory.mktemp("probe"))
    folder = tmp_path_factory.mktemp("one")
    with running(one_process(folder, model.url, sandboxed("bubblewrap"), **environ)) as deployment:
        yield deployment
