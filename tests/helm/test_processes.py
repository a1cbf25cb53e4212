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
from tests.helm.charts import Json, Rendered, containers_of, pod_template, rendered_set
from tests.helm.test_settings import environment

HERMES = Path(sys.executable).with_name("hermes")
WITHIN_S = 40.0


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return found.getsockname()[1]


def here(chart: Rendered, container: Json, root: Path, **other: str) -> dict[str, str]:
    """The variables of a container, whose root is a folder and whose address is this machine's."""
    environ = environment(container) | other
    for name, value in environ.items():
        if value.startswith(("/etc/", "/run/", "/var/", "/tmp/")):
            environ[name] = f"{root}{value}"
    home = Path(environ["HERMES_HOME"])
    home.mkdir(parents=True, exist_ok=True)
    config = home / "config.yaml"
    if not config.exists():
        config.write_text(chart.one("ConfigMap", "hermes-config")["data"]["config.yaml"])
        config.chmod(0o444)
    return environ


def secrets(root: Path, url: str) -> None:
    """What the Secrets of a release have, where they are mounted."""
    (root / "run/secrets/hermes/database").mkdir(parents=True)
    (root / "run/secrets/hermes/database/url").write_text(url)
    pki, mounted = root / "pki", root / "etc/hermes/tls"
    certs.init(pki, datetime.now(UTC))
    files = certs.issue(pki, Identity.SCHEDULER, ["127.0.0.1"], datetime.now(UTC))
    mounted.mkdir(parents=True)
    for source, name in zip(
        (files.ca, files.certificate, files.key), ("ca.crt", "tls.crt", "tls.key"), strict=True
    ):
        (mounted / name).write_bytes(source.read_bytes())


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


@pytest.mark.timeout(120)
def test_tables_are_made_and_a_service_becomes_ready_and_ends(
    tmp_path: Path, postgres_url: str
) -> None:
    chart = rendered_set("minimal")
    secrets(tmp_path, postgres_url)
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
    metrics = free_port()
    listening = {
        "HERMES_LISTEN": f"127.0.0.1:{free_port()}",
        "HERMES_METRICS_HOST": "127.0.0.1",
        "HERMES_METRICS_PORT": str(metrics),
    }
    environ = here(chart, container, tmp_path, **listening)
    ready, live, scraped = (
        f"http://127.0.0.1:{metrics}{path}"
        for path in (
            container["readinessProbe"]["httpGet"]["path"],
            container["livenessProbe"]["httpGet"]["path"],
            "/metrics",
        )
    )
    with process(container, environ) as service:
        deadline = time.monotonic() + WITHIN_S
        seen = {0}
        while 200 not in seen:
            assert service.poll() is None, service.stderr and service.stderr.read()
            assert time.monotonic() < deadline, seen
            seen.add(answer(ready))
            time.sleep(0.01)
        assert seen <= {0, 200, 503}
        assert answer(live) == 200
        assert "hermes_build_info" in httpx.get(scraped, trust_env=False).text
        service.send_signal(signal.SIGTERM)
        _, said = service.communicate(timeout=WITHIN_S)
        assert service.returncode == 0, said
    assert re.search("scheduler ready on 127.0.0.1", said)
