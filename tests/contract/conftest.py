"""Fixtures of the suites that need a cluster."""

from collections.abc import Iterator

import pytest

from tests.fakes.kubernetes.running import StandIn
from tests.support.kubernetes_cluster import cluster


@pytest.fixture(scope="module")
def stand_in(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandIn]:
    """A cluster whose one account has the documented Role and whose every "no" is a 403."""
    with cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running
