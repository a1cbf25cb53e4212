"""Fixtures that several suites share."""

from collections.abc import AsyncGenerator, Iterator

import docker
import pytest

from gateway_service.platforms.slack.platform import SlackPlatform
from gateway_service.platforms.slack.webhook import make_slack
from tests.fakes.kubernetes.running import StandIn
from tests.fakes.slack import FakeSlack, config_of, fake_slack
from tests.support.docker_engine import docker_client
from tests.support.kubernetes_cluster import cluster


@pytest.fixture(scope="module")
def stand_in(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandIn]:
    """A cluster whose one account has the documented Role and whose every "no" is a 403."""
    with cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture(scope="module")
def engine() -> Iterator[docker.DockerClient]:
    client = docker_client()
    yield client
    client.close()


@pytest.fixture
async def slack() -> AsyncGenerator[FakeSlack]:
    async with fake_slack() as server:
        yield server


@pytest.fixture
async def app(slack: FakeSlack) -> AsyncGenerator[SlackPlatform]:
    async with make_slack(config_of(slack)) as platform:
        yield platform
