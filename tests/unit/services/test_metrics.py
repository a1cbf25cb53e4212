"""What Prometheus reads, and the port on which it does."""

import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import httpx
import pytest
from prometheus_client import CollectorRegistry, Counter
from prometheus_client.parser import text_string_to_metric_families

from services.rpc.calls import CallObserver
from services.runtime.metrics_server import MetricsListenFailed, serve_metrics
from services.telemetry.metrics import (
    Exposition,
    GrpcMetrics,
    Meter,
    Metrics,
    counter,
    process_registry,
)

Series = dict[tuple[str, frozenset[tuple[str, str]]], float]


class SampleMetrics(Metrics, frozen=True):
    """Metrics as a service declares them."""

    turns: Counter = counter("hermes_turns_total", "Turns ended.", "outcome")


@asynccontextmanager
async def scraping(exposition: Exposition) -> AsyncGenerator[httpx.AsyncClient]:
    async with (
        serve_metrics(exposition, "127.0.0.1", 0) as address,
        httpx.AsyncClient(base_url=f"http://{address}", trust_env=False) as client,
    ):
        yield client


def series(text: str) -> Series:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def key(name: str, **labels: str) -> tuple[str, frozenset[tuple[str, str]]]:
    return name, frozenset(labels.items())


async def test_a_process_tells_its_version_and_what_it_uses() -> None:
    async with scraping(Exposition(process_registry("1.2.3"))) as client:
        response = await client.get("/metrics")
    assert response.status_code == 200
    assert response.headers["content-type"].startswith("text/plain; version=0.0.4")
    found = series(response.text)
    (build,) = (labels for name, labels in found if name == "hermes_build_info")
    assert ("version", "1.2.3") in build
    assert found[key("process_resident_memory_bytes")] > 1_000_000


async def test_services_of_one_process_are_told_apart_by_a_label() -> None:
    process = process_registry("1")
    agent, gateway = CollectorRegistry(), CollectorRegistry()
    SampleMetrics.create(Meter(agent)).turns.labels("done").inc(2)
    SampleMetrics.create(Meter(gateway)).turns.labels("done").inc(3)
    async with scraping(Exposition(process, {"agent": agent, "gateway": gateway})) as client:
        text = (await client.get("/metrics")).text
    found = series(text)
    assert found[key("hermes_turns_total", outcome="done", service="agent")] == 2
    assert found[key("hermes_turns_total", outcome="done", service="gateway")] == 3
    assert text.count("# TYPE hermes_turns_total counter") == 1
    assert "_created" not in text


async def test_calls_are_counted_by_method_and_status() -> None:
    registry = CollectorRegistry()
    metrics = GrpcMetrics.create(Meter(registry))
    observer: CallObserver = metrics.server
    metrics.server.started("/hermes.agent.v1.TurnService/StartTurn")
    observer.observe("/hermes.agent.v1.TurnService/StartTurn", "OK", 0.004)
    metrics.client.observe("/hermes.agent.v1.TurnService/StartTurn", "UNAVAILABLE", 0.5)
    async with scraping(Exposition(registry)) as client:
        found = series((await client.get("/metrics")).text)
    method = "hermes.agent.v1.TurnService/StartTurn"
    assert found[key("grpc_server_started_total", grpc_method=method)] == 1
    ended = {"grpc_method": method, "grpc_status": "OK"}
    name = "grpc_server_call_duration_seconds"
    assert found[key(f"{name}_count", **ended)] == 1
    assert found[key(f"{name}_bucket", **ended, le="0.005")] == 1
    assert found[key(f"{name}_bucket", **ended, le="0.0025")] == 0
    failed = {"grpc_method": method, "grpc_status": "UNAVAILABLE"}
    assert found[key("grpc_client_attempt_duration_seconds_count", **failed)] == 1


async def test_only_the_metrics_are_served() -> None:
    async with scraping(Exposition(CollectorRegistry())) as client:
        assert (await client.get("/")).status_code == 404
        assert (await client.post("/metrics")).status_code == 405


async def test_a_port_in_use_is_one_line_that_says_what_to_do() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(MetricsListenFailed) as caught:
            async with serve_metrics(Exposition(CollectorRegistry()), "127.0.0.1", port):
                pass
    assert str(caught.value) == (
        f"cannot serve metrics on 127.0.0.1:{port}: Address already in use; choose another address "
        "with services.metrics.host and services.metrics.port (0 for any free port)"
    )


def test_names_follow_the_rules() -> None:
    meter = Meter(CollectorRegistry())
    with pytest.raises(ValueError, match="must end in _total"):
        meter.counter("hermes_turns", "x")
    with pytest.raises(ValueError, match="snake case"):
        meter.gauge("hermesTurns", "x")
    with pytest.raises(ValueError, match="series for each id"):
        meter.gauge("hermes_turns", "x", "session_id")
    meter.gauge("hermes_once", "x")
    with pytest.raises(ValueError, match="Duplicated"):
        meter.gauge("hermes_once", "x")


async def test_probes_are_answered_beside_the_metrics() -> None:
    stops, why_not = "", "telegram has not answered for 61 s"
    checks = {"serving": lambda: stops, "platforms": lambda: why_not}
    async with (
        serve_metrics(Exposition(CollectorRegistry()), "127.0.0.1", 0, checks=checks) as address,
        httpx.AsyncClient(base_url=f"http://{address}", trust_env=False) as client,
    ):
        assert (await client.get("/livez")).status_code == 200
        refused = await client.get("/readyz")
        assert (refused.status_code, refused.text) == (503, f"{why_not}\n")
        assert (await client.get("/readyz?exclude=platforms")).status_code == 200
        stops = "it is starting or stopping"
        refused = await client.get("/readyz?exclude=platforms")
        assert (refused.status_code, refused.text) == (503, f"{stops}\n")
        assert (await client.get("/readyz")).text == f"{stops}; {why_not}\n"
        stops = ""
        why_not = ""
        assert (await client.get("/readyz")).status_code == 200
        assert (await client.post("/readyz")).status_code == 405
