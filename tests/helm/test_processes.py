"""Containers of the chart as processes: their own arguments and variables, on this machine."""

import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest

from scheduler_service.storage import migrations
from services import certs
from services.auth import Identity
from tests.helm.charts import (
    NAMESPACE,
    Json,
    Rendered,
    containers_of,
    pod_template,
    rendered,
    rendered_set,
    with_values,
)
from tests.helm.test_settings import environment
from tests.kubernetes_cluster import NAMESPACE as SANDBOXES
from tests.kubernetes_cluster import cluster

HERMES = Path(sys.executable).with_name("hermes")
WITHIN_S = 40.0

pytestmark = pytest.mark.slow


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return found.getsockname()[1]


def here(chart: Rendered, container: Json, root: Path, **other: str) -> dict[str, str]:
    """The variables of a container, whose root is a folder and whose address is this machine's."""
    environ = environment(container)
    for name, value in environ.items():
        if value.startswith(("/etc/", "/run/", "/var/", "/tmp/")):
            environ[name] = f"{root}{value}"
    home = Path(environ["HERMES_HOME"])
    home.mkdir(parents=True, exist_ok=True)
    config = home / "config.yaml"
    if not config.exists():
        config.write_text(chart.one("ConfigMap", "hermes-config")["data"]["config.yaml"])
        config.chmod(0o444)
    return environ | other


def secrets(root: Path, identity: Identity, pki: Path, url: str = "") -> None:
    """What the Secrets of a release have, where they are mounted."""
    if url:
        (root / "run/secrets/hermes/database").mkdir(parents=True)
        (root / "run/secrets/hermes/database/url").write_text(url)
    mounted = root / "etc/hermes/tls"
    files = certs.issue(pki, identity, ["127.0.0.1"], datetime.now(UTC))
    mounted.mkdir(parents=True)
    keys = {"ca.crt": files.ca, "tls.crt": files.certificate, "tls.key": files.key}
    for name, source in keys.items():
        (mounted / name).write_bytes(source.read_bytes())


@pytest.fixture
def pki(tmp_path: Path) -> Path:
    """An authority."""
    certs.init(tmp_path / "pki", datetime.now(UTC))
    return tmp_path / "pki"


@contextmanager
def process(container: Json, environ: dict[str, str]) -> Generator[subprocess.Popen[str]]:
    command = [HERMES, *container["args"]]
    with subprocess.Popen(command, env=environ, stderr=subprocess.PIPE, text=True) as started:
        try:
            yield started
        finally:
            started.kill()


def answer(url: str) -> int:
    """The status of a probe; 0 where nobody listens."""
    try:
        return httpx.get(url, trust_env=False, timeout=5).status_code
    except httpx.TransportError:
        return 0


def until_ready(service: subprocess.Popen[str], probe: str) -> set[int]:
    """Wait until a probe is answered with 200; what it was answered with."""
    deadline = time.monotonic() + WITHIN_S
    seen = {0}
    while 200 not in seen:
        assert service.poll() is None, service.stderr and service.stderr.read()
        assert time.monotonic() < deadline, seen
        seen.add(answer(probe))
        time.sleep(0.01)
    return seen


def listening(metrics: int) -> dict[str, str]:
    """Variables with ports of this machine."""
    return {
        "HERMES_LISTEN": f"127.0.0.1:{free_port()}",
        "HERMES_METRICS_HOST": "127.0.0.1",
        "HERMES_METRICS_PORT": str(metrics),
    }


@pytest.mark.timeout(120)
def test_tables_are_made_and_a_service_becomes_ready_and_ends(
    tmp_path: Path, pki: Path, postgres_url: str
) -> None:
    chart = rendered_set("minimal")
    secrets(tmp_path, Identity.SCHEDULER, pki, postgres_url)
    job = containers_of(pod_template(chart.one("Job", "hermes-migrations")))
    (upgrade,) = [each for each in job if each["name"] == "scheduler"]
    done = subprocess.run(
        [HERMES, *upgrade["args"]],
        env=here(chart, upgrade, tmp_path),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert migrations.HEAD in done.stdout

    (container,) = containers_of(pod_template(chart.service("scheduler")))
    environ = here(chart, container, tmp_path, **listening(metrics := free_port()))
    ready, live, scraped = (
        f"http://127.0.0.1:{metrics}{path}"
        for path in (
            container["readinessProbe"]["httpGet"]["path"],
            container["livenessProbe"]["httpGet"]["path"],
            "/metrics",
        )
    )
    with process(container, environ) as service:
        assert until_ready(service, ready) <= {0, 200, 503}
        assert answer(live) == 200
        assert "hermes_build_info" in httpx.get(scraped, trust_env=False).text
        service.send_signal(signal.SIGTERM)
        _, said = service.communicate(timeout=WITHIN_S)
        assert service.returncode == 0, said
    assert re.search("scheduler ready on 127.0.0.1", said)


@pytest.mark.timeout(120)
def test_the_test_of_a_release_passes_with_the_rights_and_policies_of_the_chart(
    tmp_path: Path, pki: Path
) -> None:
    sizes = {"memory_bytes": 256 * 1024**2, "tmp_bytes": 32 * 1024**2}
    image = {"kubernetes": {"image": "hermes-sandbox:latest"}}
    chart = rendered(with_values("minimal", config={"executor": {**sizes, **image}}))
    (closed,) = [p for p in chart.of("NetworkPolicy") if p["metadata"]["namespace"] != NAMESPACE]
    assert closed["metadata"]["namespace"] == SANDBOXES
    applied = {"Role": chart.one("Role", "hermes-executor"), "NetworkPolicy": closed}
    (container,) = containers_of(pod_template(chart.service("executor")))
    (tries,) = containers_of(chart.one("Pod", "hermes-test-sandbox"))
    secrets(tmp_path / "executor", Identity.EXECUTOR, pki)
    secrets(tmp_path / "operator", Identity.OPERATOR, pki)
    with cluster(tmp_path / "cluster", applied=applied) as stand_in:
        own = listening(metrics := free_port())
        address = own["HERMES_LISTEN"]
        own |= {
            "HERMES_EXECUTOR_ENDPOINT": address,
            "HERMES_KUBERNETES_KUBECONFIG": str(stand_in.kubeconfig),
        }
        environ = here(chart, container, tmp_path / "executor", **own)
        with process(container, environ) as executor:
            until_ready(executor, f"http://127.0.0.1:{metrics}/readyz")
            operator = here(chart, tries, tmp_path / "operator", HERMES_EXECUTOR_ADDRESS=address)
            tried = subprocess.run(
                [HERMES, *tries["args"]], env=operator, capture_output=True, text=True, check=False
            )
            assert tried.returncode == 0, tried.stderr
            assert "kubernetes, isolation namespace" in tried.stdout
            assert "uid=1000" in tried.stdout
            assert "nothing outside is reached from there" in tried.stdout
            executor.send_signal(signal.SIGTERM)
            _, said = executor.communicate(timeout=WITHIN_S)
            assert executor.returncode == 0, said
        used = stand_in.cluster.rights.used
    # Nothing of the Role goes unused but what other ways of ending and looking need.
    assert {
        ("create", "", "pods"),
        ("create", "", "pods/exec"),
        ("create", "", "configmaps"),
    } <= used
