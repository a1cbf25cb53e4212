"""What a deployment is told of itself from inside."""

import asyncio
import re
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import grpc.aio
import pytest
import sqlalchemy as sa
from sqlalchemy.engine import make_url

from scheduler_service.storage import migrations
from services.cli.admin.cluster_checks import (
    LEFT,
    certificate_check,
    clock_check,
    network_checks,
    pod_check,
    trial_check,
)
from services.cli.failures import in_short
from services.cli.sandboxes.trial import Trial
from services.clock import SystemClock
from services.config.settings import load_settings
from services.database import Database
from services.database.migrations import prepare
from services.rpc.addresses import TcpAddress
from services.rpc.auth import Identity
from services.rpc.certs import files_of, init, issue
from services.runtime.checks import Verdict
from tests.fakes.clock import ManualClock

NOBODY = TcpAddress("127.0.0.1", 1)
NOW = datetime(2026, 11, 1, tzinfo=UTC)
RESTRICTED = "Name:\thermes\nCapBnd:\t0000000000000000\nNoNewPrivs:\t1\nSeccomp:\t2\n"


@pytest.mark.parametrize(
    ("before", "after", "uid", "is_read_only", "told"),
    [
        ("", "", 10000, True, "restricted, user 10000, read-only root file system"),
        ("Privs:\t1", "Privs:\t0", 10000, True, "NoNewPrivs is 0"),
        ("CapBnd:\t0", "CapBnd:\t1", 10000, True, "CapBnd is 1000000000000000"),
        ("Seccomp:\t2", "Seccomp:\t0", 10000, True, "Seccomp is 0"),
        ("", "", 0, True, "it runs as root"),
        ("", "", 10000, False, "its root file system can be written"),
    ],
)
def test_a_pod_says_which_rights_it_has_that_the_chart_does_not_give(
    before: str, after: str, uid: int, is_read_only: bool, told: str
) -> None:
    found = pod_check(RESTRICTED.replace(before, after), uid, is_read_only=is_read_only)
    is_well = told.startswith("restricted")
    assert found.verdict is (Verdict.OK if is_well else Verdict.FAILED)
    assert told in found.message


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
    ("there", "verdict", "told"),
    [
        (None, Verdict.NOTE, "hermes database upgrade"),
        ("0000", Verdict.NOTE, "hermes database upgrade"),
        (migrations.HEAD, Verdict.OK, f"version {migrations.HEAD}"),
        ("9999", Verdict.OK, f"newer than this version's {migrations.HEAD}"),
    ],
)
async def test_tables_of_another_version_are_told(
    there: str | None, verdict: Verdict, told: str, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path}/scheduler.db"
    async with Database(url, "scheduler") as database:
        if there is not None:
            await prepare(database, migrations)
            await database.write(partial(stamp, there=there))
    found = await clock_check(url, "scheduler", SystemClock())
    assert (found.name, found.verdict) == ("database", verdict)
    assert found.message.endswith(told)


def stamp(conn: sa.Connection, there: str) -> None:
    conn.execute(sa.text("UPDATE alembic_version SET version_num = :there"), {"there": there})


async def test_a_clock_that_is_not_the_databases_is_told(empty_postgres_url: str) -> None:
    async with Database(empty_postgres_url, "scheduler") as database:
        await prepare(database, migrations)
    for apart in (timedelta(hours=1), timedelta(hours=-1)):
        wrong = ManualClock(datetime.now(UTC) + apart)
        found = await clock_check(empty_postgres_url, "scheduler", wrong)
        assert (found.name, found.verdict) == ("clock", Verdict.FAILED)
        assert re.search(r"are 3(59\d|60\d) s apart", found.message), found.message
    well = await clock_check(empty_postgres_url, "scheduler", SystemClock())
    assert (well.verdict, migrations.HEAD in well.message) == (Verdict.OK, True)
    away = make_url(empty_postgres_url).set(port=1).render_as_string(hide_password=False)
    assert (await clock_check(away, "scheduler", SystemClock())).verdict is Verdict.FAILED


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
