"""What a deployment is told of itself from inside."""

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path

import grpc.aio
import pytest

from services.cli.admin.cluster_checks import LEFT, certificate_check, network_checks, trial_check
from services.cli.failures import in_short
from services.cli.sandboxes.trial import Trial
from services.config.settings import load_settings
from services.rpc.addresses import TcpAddress
from services.rpc.auth import Identity
from services.rpc.certs import files_of, init, issue
from services.runtime.checks import Verdict

NOBODY = TcpAddress("127.0.0.1", 1)
NOW = datetime(2026, 11, 1, tzinfo=UTC)


def test_a_certificate_says_whose_it_is_and_how_long_it_lasts(tmp_path: Path) -> None:
    init(tmp_path, NOW)
    issue(tmp_path, Identity.GATEWAY, ("gateway",), NOW)
    files = files_of(tmp_path, Identity.GATEWAY)
    found, identity = certificate_check(files, NOW + timedelta(hours=1))
    assert (found.verdict, identity) == (Verdict.OK, Identity.GATEWAY)
    ends = datetime.fromisoformat(found.message.rpartition(" ")[2]).replace(tzinfo=UTC)
    soon, _ = certificate_check(files, ends - LEFT + timedelta(days=1))
    assert soon.verdict is Verdict.NOTE
    late, nobody = certificate_check(files, ends + timedelta(days=2))
    assert (late.verdict, nobody) == (Verdict.FAILED, None)


async def test_what_is_reached_and_should_not_be_is_told(tmp_path: Path) -> None:
    async with await asyncio.start_server(
        lambda _, writer: writer.close(), "127.0.0.1", 0
    ) as server:
        port = server.sockets[0].getsockname()[1]
        environ = {
            "HERMES_HOME": str(tmp_path),
            "HERMES_EXECUTOR_ADDRESS": f"127.0.0.1:{port}",
            "HERMES_SCHEDULER_ADDRESS": "127.0.0.1:1",
        }
        settings = load_settings({}, environ)
        (found,) = await network_checks(settings, Identity.GATEWAY, NOBODY)
        assert found.verdict is Verdict.FAILED
        assert f"the gateway can reach the executor at 127.0.0.1:{port}" in found.message
        assert "docs/operators/compose.md" in found.message
        clustered = load_settings({}, {**environ, "KUBERNETES_SERVICE_HOST": "10.0.0.1"})
        (found,) = await network_checks(clustered, Identity.GATEWAY, NOBODY)
        assert "network policies?" in found.message
        # Docker's networks lead back to who calls, and network policies do not.
        leads_back = {"HERMES_HOME": str(tmp_path), "HERMES_AGENT_ADDRESS": f"127.0.0.1:{port}"}
        for cluster, verdict in (
            ({}, Verdict.OK),
            ({"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, Verdict.FAILED),
        ):
            back = load_settings({}, {**leads_back, **cluster})
            (found,) = await network_checks(back, Identity.EXECUTOR, NOBODY)
            assert found.verdict is verdict
        (found,) = await network_checks(settings, Identity.AGENT, TcpAddress("127.0.0.1", port))
        assert found.verdict is Verdict.FAILED
        assert "the agent can reach the metadata service" in found.message
        assert "docs/operators/compose.md" in found.message
        for identity in (Identity.AGENT, Identity.EXECUTOR):
            (well,) = await network_checks(settings, identity, NOBODY)
            assert well.verdict is Verdict.OK, well.message


@pytest.mark.parametrize(
    ("details", "told"),
    [
        (
            "errors resolving a:1: [C-ares status is not OK: Domain name not found]",
            "name not found",
        ),
        ("failed to connect: ipv6:[::1]:7401: Connection refused (111)", "refused (111)"),
        ("no way to [::1]", "[::1]"),
    ],
)
def test_why_somebody_is_silent_is_the_end_of_what_grpc_tells(details: str, told: str) -> None:
    error = grpc.aio.AioRpcError(
        grpc.StatusCode.UNAVAILABLE, grpc.aio.Metadata(), grpc.aio.Metadata(), details, None
    )
    assert in_short(error).endswith(told)


@pytest.mark.parametrize(
    ("backend", "status", "reached", "verdict", "told"),
    [
        ("kubernetes", 0, [], Verdict.OK, "reached nothing outside"),
        ("kubernetes", 0, ["1.1.1.1 443"], Verdict.FAILED, "reached 1.1.1.1 443"),
        ("kubernetes", 1, [], Verdict.FAILED, "ended with status 1: no such user"),
        ("ssh", 0, ["1.1.1.1 443"], Verdict.OK, "which uses the network of its machine"),
        ("ssh", None, [], Verdict.FAILED, "ended with status None"),
    ],
)
def test_a_sandbox_may_reach_only_what_its_backend_leaves_open(
    backend: str, status: int | None, reached: list[str], verdict: Verdict, told: str
) -> None:
    trial = Trial("executor-0:7402", backend, "container", "cold", status, "no such user", reached)
    found = trial_check(trial)
    assert (found.verdict, told in found.message) == (verdict, True), found.message
