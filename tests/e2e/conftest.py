"""Deployments that the scenarios share, each started once."""

import fcntl
import tempfile
from collections.abc import Generator, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.e2e.backends import BACKENDS, need_backend, sandboxed
from tests.e2e.deployment import Deployment, four_processes, one_process, running
from tests.e2e.home import Home
from tests.e2e.model import ModelProcess, model_process

LAYOUTS = ("one-process", "four-processes", "postgres")


HERE = Path(__file__).parent
USUAL = {("one-process", "docker"), ("four-processes", "bubblewrap"), ("postgres", "bubblewrap")}
"""Each layout and each backend once; the other pairs are tested in full runs only."""
USUAL_BACKEND = "bubblewrap"
"""Where a test without a deployment has its sandboxes; others in full runs only."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the unusual pairs and backends as slow."""
    for item in items:
        params = (
            item.callspec.params
            if isinstance(item, pytest.Function) and hasattr(item, "callspec")
            else {}
        )
        backend, layout = params.get("backend"), params.get("deployment")
        if backend is None or not item.path.is_relative_to(HERE):
            continue
        usual = backend == USUAL_BACKEND if layout is None else (layout, backend) in USUAL
        if not usual:
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModelProcess]:
    """The scripted model."""
    with model_process(tmp_path_factory.mktemp("model")) as process:
        yield process


@pytest.fixture
def usual_ports() -> Generator[None]:
    """Hold the usual ports of local model servers: a test looks for one there, or serves one."""
    with Path(tempfile.gettempdir(), "hermes-usual-ports.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@pytest.fixture(scope="module", params=BACKENDS)
def backend(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Each sandbox backend in turn, where it runs."""
    return need_backend(request.param, tmp_path_factory.mktemp("probe"))


@pytest.fixture(scope="module", params=LAYOUTS)
def deployment(
    backend: str,
    model: ModelProcess,
    tmp_path_factory: pytest.TempPathFactory,
    request: pytest.FixtureRequest,
) -> Iterator[Deployment]:
    """A running deployment of each kind, on each backend."""
    folder, config = tmp_path_factory.mktemp(request.param), sandboxed(backend)
    with ExitStack() as stack:
        match request.param:
            case "four-processes":
                made = four_processes(folder, model.url, config)
            case "postgres":
                server = request.getfixturevalue("postgres")
                url = stack.enter_context(server.database())
                made = one_process(folder, model.url, config, HERMES_DATABASE_URL=url)
            case _:
                made = one_process(folder, model.url, config)
        yield stack.enter_context(running(made))


@pytest.fixture(scope="module")
def up(
    backend: str, model: ModelProcess, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Deployment]:
    """A running `hermes up`, on each backend."""
    folder = tmp_path_factory.mktemp("up")
    with running(one_process(folder, model.url, sandboxed(backend))) as started:
        yield started


@pytest.fixture
def home(backend: str, model: ModelProcess, tmp_path: Path) -> Home:
    """A home in which no server runs."""
    return one_process(tmp_path, model.url, sandboxed(backend)).client
