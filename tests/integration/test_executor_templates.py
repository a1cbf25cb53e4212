"""Named kinds of sandbox: each with a backend, limits and a pool of its own, in one executor."""

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from executor_service.config import ExecutorConfig
from hermes.executor.v1 import exec_pb2, pool_pb2, sandbox_pb2
from services.config.settings import ConfigError, Settings
from services.errors import Reason
from services.rpc.auth import Identity
from tests.support.executor_client import Client
from tests.support.executors import Process, executor_settings, refused, serving, until

TEMPLATES: Mapping[str, Any] = {
    "small": {"backend": "bubblewrap", "pids": 32, "warm_pool_size": 1, "max_sandboxes": 1},
    "nowhere": {"backend": "docker", "settings": {"host": "unix:///nonexistent/docker.sock"}},
}
FORKS = "for i in $(seq 60); do sleep 9 & done; echo forked; kill $(jobs -p)"


def settings_with(home: Path, templates: Mapping[str, Any], **environ: str) -> Settings:
    # JSON is YAML.
    text = json.dumps({"executor": {"templates": dict(templates)}})
    (home / "config.yaml").write_text(text, encoding="utf-8")
    return executor_settings(home, "bubblewrap", **environ)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return settings_with(tmp_path, TEMPLATES)


@pytest.fixture
def plain(tmp_path: Path) -> Settings:
    """Those of an executor without templates."""
    return settings_with(tmp_path, {})


async def stats(client: Client) -> dict[str, pool_pb2.PoolStats]:
    answer = await client.pools.GetPoolStats(pool_pb2.GetPoolStatsRequest())
    return {pool.template: pool for pool in answer.pools}


async def exit_of(client: Client, lease: sandbox_pb2.Lease, script: str) -> exec_pb2.Exit | None:
    return (await client.run_at_once(lease, "bash", "-c", script)).exit


async def test_each_template_has_its_own_limits_and_pool(settings: Settings) -> None:
    async with (
        serving(settings) as executor,
        executor.client() as client,
        executor.client(Identity.OPERATOR) as operator,
    ):

        async def is_ready() -> bool:
            return (await stats(operator))["small"].ready_count == 1

        await until(is_ready)
        usual, small = await client.acquire(), await client.acquire(template="small")
        assert (usual.sandbox.template, small.sandbox.template) == ("default", "small")
        assert usual.launch == sandbox_pb2.LAUNCH_KIND_COLD
        assert small.launch == sandbox_pb2.LAUNCH_KIND_WARM
        forked, crowded = [await exit_of(client, one.lease, FORKS) for one in (usual, small)]
        assert forked is not None
        assert crowded is not None
        assert forked.reason == exec_pb2.EXIT_REASON_EXITED
        assert crowded.reason != exec_pb2.EXIT_REASON_EXITED or crowded.code != 0
        found = await stats(operator)
        assert found["default"].claimed_count == found["small"].claimed_count == 1
        assert found["small"].hit_count == found["default"].miss_count == 1
        labels = {"backend": "bubblewrap", "template": "small", "state": "claimed"}
        assert executor.metric("hermes_sandbox_pool", **labels) == 1
        again = await client.acquire(small.sandbox.session_id)
        assert again.sandbox.sandbox_id == small.sandbox.sandbox_id
        no_place = client.acquire(template="small", wait={"nanos": 50_000_000})
        assert await refused(no_place) is Reason.POOL_EXHAUSTED


async def test_a_template_that_cannot_be_had_is_never_replaced(settings: Settings) -> None:
    async with serving(settings) as executor, executor.client() as client:
        assert await refused(client.acquire(template="nowhere")) is Reason.BACKEND_UNAVAILABLE
        assert await refused(client.acquire(template="unheard-of")) is Reason.INVALID_ARGUMENT
        answer = await client.sandboxes.GetCapabilities(sandbox_pb2.GetCapabilitiesRequest())
        known = {backend.template: backend for backend in answer.backends}
        assert known["default"].available
        assert known["small"].available
        assert not known["nowhere"].available
        assert "docker.sock" in known["nowhere"].detail


async def test_sandboxes_of_templates_outlive_the_executor(tmp_path: Path) -> None:
    keeping = {"HERMES_KEEP_SANDBOXES": "true"}
    settings = await asyncio.to_thread(settings_with, tmp_path, TEMPLATES, **keeping)
    async with Process(settings) as before, before.client() as client:
        kept = await client.acquire("ses_kept", template="small")
        await client.start(kept.lease, "sleep", "60", exec_id="exc_sleep")
        await before.kill()
    async with Process(settings, tokens=before.tokens) as after, after.client() as client:
        again = await client.acquire("ses_kept")
        assert again.sandbox.sandbox_id == kept.sandbox.sandbox_id
        assert [one.exec_id for one in await client.list(again.lease)] == ["exc_sleep"]
        await after.kill()
    # With its template a sandbox goes, and is reported lost.
    settings = await asyncio.to_thread(settings_with, tmp_path, {})
    async with serving(settings) as last, last.client() as client:
        new = await client.acquire("ses_kept")
        assert new.sandbox.sandbox_id != kept.sandbox.sandbox_id
        assert last.metric("hermes_orphans_reaped_total") == 1


async def test_draining_takes_no_new_work_and_moves_none_that_runs(settings: Settings) -> None:
    async with (
        serving(settings) as executor,
        executor.client() as client,
        executor.client(Identity.OPERATOR) as operator,
    ):
        old = await client.acquire("ses_old")
        sleeping = await client.start(old.lease, "sleep", "60")
        for _ in range(2):
            left = await operator.pools.Drain(pool_pb2.DrainRequest())
            assert (left.claimed_count, left.running_command_count) == (1, 1)
        assert await refused(client.acquire("ses_new")) is Reason.DRAINING
        again = await client.acquire("ses_old")
        assert again.sandbox.sandbox_id == old.sandbox.sandbox_id
        assert (await client.run_at_once(again.lease, "true")).code == 0
        await client.signal(again.lease, sleeping.exec_id)


async def test_a_pool_is_resized_by_an_operator_only(plain: Settings) -> None:
    async with (
        serving(plain) as executor,
        executor.client() as client,
        executor.client(Identity.OPERATOR) as operator,
    ):
        larger = pool_pb2.ResizePoolRequest(warm_size=2)
        assert await refused(client.pools.ResizePool(larger)) is Reason.PERMISSION_DENIED
        before = (await stats(operator))["default"]
        after = (await operator.pools.ResizePool(larger)).pool
        assert (after.warm_size, after.max_size) == (2, before.max_size)

        async def are_ready() -> bool:
            return (await stats(operator))["default"].ready_count == 2

        await until(are_ready)
        too_many = before.max_size + 1
        for wrong in (
            pool_pb2.ResizePoolRequest(max_size=0),
            pool_pb2.ResizePoolRequest(max_size=1),
            pool_pb2.ResizePoolRequest(warm_size=too_many),
        ):
            assert await refused(operator.pools.ResizePool(wrong)) is Reason.INVALID_ARGUMENT


@pytest.mark.parametrize(
    ("template", "said"),
    [
        ({"backend": "ssh", "settings": {"hots": "a"}}, "executor.templates.*hots"),
        ({"backend": "bubblewrap", "settings": {"a": 1}}, "no settings executor.bubblewrap"),
        ({"settings": {"image": "a"}}, "set `backend` as well"),
        ({"pids": 1}, r"templates\.x\.pids"),
        ({"unheard_of": 1}, "unheard_of"),
    ],
)
def test_a_wrong_template_is_one_clear_line(
    tmp_path: Path, template: Mapping[str, Any], said: str
) -> None:
    with pytest.raises(ConfigError, match=said) as caught:
        settings_with(tmp_path, {"x": template}).load(ExecutorConfig)
    assert "\n" not in str(caught.value)


async def test_what_fills_memory_with_files_leaves_room_for_commands(tmp_path: Path) -> None:
    small = {"small": {"memory_bytes": 256 << 20}}
    settings = await asyncio.to_thread(settings_with, tmp_path, small)
    async with serving(settings) as executor, executor.client() as client:
        lease = (await client.acquire(template="small")).lease
        places = "/tmp /var/tmp /run /dev/shm"
        script = f"for it in {places}; do head -c 1G /dev/zero >$it/full; done; du -cm {places}"
        seen = await client.run(lease, script=script)
        assert seen.code == 0, seen.exit
        assert seen.stderr.count(b"No space left on device") == 4
        taken_mib = int(seen.stdout.split()[-2])
        assert 64 < taken_mib < 160, seen.stdout
        assert await client.output(lease, "python3 -c 'print(len(bytes(64 << 20)))'")
