"""Batches with an agent at the wire: each item is one turn, whatever dies."""

import asyncio
import hashlib
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from hermes.common.v1.content_pb2 import FILE_KIND_IMAGE, MessageFile
from hermes.scheduler.v1 import batch_item_pb2 as items
from hermes.scheduler.v1 import batch_pb2 as pb
from hermes.scheduler.v1.batch_pb2_grpc import BatchServiceStub
from services.errors import Reason
from services.rpc.auth import Identity
from tests.integration.scheduler_parts import Wire
from tests.integration.scheduler_served import Serving, refused, serving, settings_of
from tests.support.disks import filled, small_disk


def prompts(*texts: str, **more: Any) -> list[items.BatchPrompt]:
    """Items that say how their turns end."""
    return [
        items.BatchPrompt(item_id=f"item-{number}", prompt=text, toolsets=["terminal"], **more)
        for number, text in enumerate(texts, 1)
    ]


async def messages(
    name: str, asked: Sequence[items.BatchPrompt], **options: Any
) -> AsyncGenerator[pb.CreateBatchRequest]:
    digest = hashlib.sha256(repr((asked, options)).encode()).digest()
    count = options.pop("item_count", len(asked))
    header = pb.CreateBatchRequest.Header(
        name=name, item_count=count, digest=digest, options=items.BatchOptions(**options)
    )
    yield pb.CreateBatchRequest(header=header)
    for start in range(0, len(asked), 2):
        chunk = pb.CreateBatchRequest.Items(items=asked[start : start + 2])
        yield pb.CreateBatchRequest(items=chunk)


class Client:
    """What an operator asks of a scheduler."""

    def __init__(self, served: Serving) -> None:
        self.stub = BatchServiceStub(served.channels[Identity.OPERATOR].to("scheduler"))

    async def create(
        self, name: str, asked: Sequence[items.BatchPrompt], **options: Any
    ) -> items.Batch:
        return (await self.stub.CreateBatch(messages(name, asked, **options))).batch

    async def until(self, name: str, state: int) -> items.Batch:
        """Return the batch once it is in a state and nothing is under way."""
        async with asyncio.timeout(20):
            while True:
                found = (await self.stub.GetBatch(pb.GetBatchRequest(name=name))).batch
                if found.state == state and not found.running_count:
                    return found
                await asyncio.sleep(0.02)

    async def items(self, name: str, **how: Any) -> list[items.BatchItem]:
        found = await self.stub.ListItems(pb.ListItemsRequest(name=name, page_size=1000, **how))
        return list(found.items)


@pytest.fixture
def site(database_url: str, tmp_path: Path) -> "Site":
    return Site(tmp_path / "home", database_url)


class Site:
    """A home whose scheduler may be started again."""

    def __init__(self, home: Path, url: str) -> None:
        (home / "config.yaml").parent.mkdir()
        (home / "config.yaml").write_text("batch: {pause_s: 0.2}\n")
        self._settings = settings_of(home, HERMES_DATABASE_URL=url)

    @asynccontextmanager
    async def scheduler(self, wire: Wire) -> AsyncGenerator[Client]:
        async with serving(self._settings, wire) as served:
            yield Client(served)


async def test_every_item_is_a_turn_and_a_record(site: Site, wire: Wire) -> None:
    asked = prompts("answer one", "refuse broken", "limit so far")
    async with site.scheduler(wire) as client:
        made = await client.create("first", asked, model="small", max_model_calls=7)
        assert made.state == items.BATCH_STATE_RUNNING
        done = await client.until("first", items.BATCH_STATE_COMPLETED)
        assert (done.done_count, done.failed_count, done.success_count) == (3, 1, 1)
        assert (done.usage.cost_micro_usd, done.usage.prompt_tokens) == (500, 10)
        assert done.HasField("finish_time")
        found = await client.items("first")
    assert [item.prompt for item in found] == asked
    assert [item.result.answer for item in found] == ["one", "", "so far"]
    reasons = [item.result.finish_reason for item in found]
    assert reasons == ["completed", "model_content_policy", "limit_reached"]
    turns = wire.turns.requests
    assert {(turn.model, turn.max_model_calls) for turn in turns.values()} == {("small", 7)}
    assert {turn.origin.platform for turn in turns.values()} == {"batch"}
    assert all(turn.skip_context_files for turn in turns.values())
    assert set(turns) == {item.turn_id for item in found}
    assert sorted(wire.sandboxes.released) == sorted(item.session_id for item in found)


async def test_scripts_get_their_files_and_the_message_its_own(site: Site, wire: Wire) -> None:
    files = {
        name: [MessageFile(name=name, kind=FILE_KIND_IMAGE, length_bytes=1, sha256=b"x" * 32)]
        for name in ("files", "setup_files", "check_files")
    }
    asked = prompts("answer one", setup="true", check="true", **files)
    async with site.scheduler(wire) as client:
        await client.create("first", asked)
        await client.until("first", items.BATCH_STATE_COMPLETED)
        (item,) = await client.items("first")
    assert [item.prompt] == asked
    turn, check = (wire.turns.requests[f"{item.turn_id}{end}"] for end in ("", ".check"))
    assert [part.file for part in turn.parts[1:]] == files["files"]
    assert list(turn.script.files) == files["setup_files"]
    assert list(check.script.files) == files["check_files"]
    assert not check.parts


async def test_a_batch_is_stored_once_by_its_name(site: Site, wire: Wire) -> None:
    asked = prompts("answer one", "answer two", "answer three")
    async with site.scheduler(wire) as client:
        made = await client.create("same", asked)
        again = await client.create("same", asked)
        assert made.batch_id == again.batch_id
        reason, message = await refused(client.create("same", asked[:1]))
        assert reason is Reason.ALREADY_EXISTS
        assert "same" in message
        await client.until("same", items.BATCH_STATE_COMPLETED)
        listed = await client.stub.ListBatches(pb.ListBatchesRequest())
        assert [batch.name for batch in listed.batches] == ["same"]
        other = await client.stub.ListBatches(pb.ListBatchesRequest(profile="ada"))
        assert not other.batches
        await client.stub.DeleteBatch(pb.DeleteBatchRequest(name="same"))
        assert (await refused(client.items("same")))[0] is Reason.NOT_FOUND
    assert len(wire.turns.requests) == 3


async def test_what_came_in_part_or_twice_is_not_stored(site: Site, wire: Wire) -> None:
    asked = prompts("answer one", "answer two")
    async with site.scheduler(wire) as client:
        reason, _ = await refused(client.create("short", asked, item_count=3))
        assert reason is Reason.DIGEST_MISMATCH
        reason, _ = await refused(client.create("twice", [*asked, *asked[:1]]))
        assert reason is Reason.ALREADY_EXISTS
        reason, message = await refused(client.create("empty", prompts("answer one", " ")))
        assert reason is Reason.INVALID_ARGUMENT
        assert "item-2" in message
        assert not (await client.stub.ListBatches(pb.ListBatchesRequest())).batches
    assert not wire.turns.requests


async def test_a_batch_waits_for_its_provider_and_tries_again(site: Site, wire: Wire) -> None:
    async with site.scheduler(wire) as client:
        await client.create("limited", prompts("busy one", "answer two"))
        watching = client.stub.WatchBatch(pb.WatchBatchRequest(name="limited"))
        seen = [response.batch async for response in watching]
        assert seen[-1].state == items.BATCH_STATE_COMPLETED
        first, second = await client.items("limited")
    assert (first.attempt, first.result.answer) == (2, "one")
    assert (second.attempt, second.result.answer) == (1, "two")
    assert len(wire.turns.requests) == 3


async def test_a_batch_waits_as_long_as_its_provider_asks(site: Site, wire: Wire) -> None:
    async with site.scheduler(wire) as client:
        made = await client.create("asked", prompts("later one"))
        waiting = await client.until("asked", items.BATCH_STATE_WAITING)
        assert 3600 <= waiting.resume_time.ToSeconds() - made.create_time.ToSeconds() < 3700
        # A person need not wait.
        await client.stub.ResumeBatch(pb.ResumeBatchRequest(name="asked"))
        done = await client.until("asked", items.BATCH_STATE_COMPLETED)
        assert done.success_count == 1


async def test_a_failure_of_all_stops_a_batch_before_its_items_are_lost(
    site: Site, wire: Wire
) -> None:
    async with site.scheduler(wire) as client:
        await client.create("unpaid", prompts(*["unpaid one"] * 4), worker_count=1)
        stopped = await client.until("unpaid", items.BATCH_STATE_STOPPED)
        assert (stopped.reason, stopped.done_count) == ("one", 0)
        assert len(wire.turns.requests) == 1


async def test_a_budget_ends_a_batch_that_goes_on_with_a_larger_one(site: Site, wire: Wire) -> None:
    async with site.scheduler(wire) as client:
        asked = prompts(*["answer one"] * 5)
        await client.create("dear", asked, worker_count=1, budget_micro_usd=900)
        found = await client.until("dear", items.BATCH_STATE_BUDGET_REACHED)
        assert found.done_count == 2
        assert len(await client.items("dear", ended_only=True)) == 2
        more = pb.ResumeBatchRequest(name="dear", budget_micro_usd=0, worker_count=3)
        await client.stub.ResumeBatch(more)
        found = await client.until("dear", items.BATCH_STATE_COMPLETED)
        assert (found.done_count, found.options.worker_count) == (5, 3)


async def test_a_stopped_batch_ends_what_is_under_way_and_goes_on_later(
    site: Site, wire: Wire
) -> None:
    async with site.scheduler(wire) as client:
        await client.create("halted", prompts("wait", "answer two", "refuse it"), worker_count=1)
        (turn_id,) = await wire.turns.started(1)
        answer = await client.stub.StopBatch(pb.StopBatchRequest(name="halted"))
        assert answer.batch.state == items.BATCH_STATE_STOPPED
        assert answer.batch.running_count == 1
        reason, _ = await refused(client.stub.DeleteBatch(pb.DeleteBatchRequest(name="halted")))
        assert reason is Reason.FAILED_PRECONDITION
        wire.turns.release(turn_id)
        found = await client.until("halted", items.BATCH_STATE_STOPPED)
        assert found.done_count == 1
        await client.stub.ResumeBatch(pb.ResumeBatchRequest(name="halted"))
        found = await client.until("halted", items.BATCH_STATE_COMPLETED)
        assert (found.done_count, found.failed_count) == (3, 1)
        await client.stub.ResumeBatch(pb.ResumeBatchRequest(name="halted", retries_failed=True))
        found = await client.until("halted", items.BATCH_STATE_COMPLETED)
        assert (found.done_count, found.failed_count) == (3, 1)
        assert [item.attempt for item in await client.items("halted")] == [1, 1, 2]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk", mib=4) as folder:
        yield folder


@pytest.fixture
def on_small_disk(disk: Path, tmp_path: Path) -> Site:
    return Site(tmp_path / "home", f"sqlite:///{disk}/scheduler.db")


async def test_on_a_full_disk_nothing_that_was_done_is_lost(
    disk: Path, on_small_disk: Site, wire: Wire
) -> None:
    async with on_small_disk.scheduler(wire) as client:
        await client.create("full", prompts("answer one", *["wait"] * 3))
        turn_ids = await wire.turns.started(4)
        with ExitStack() as stack:
            await asyncio.to_thread(stack.enter_context, filled(disk))
            for turn_id in turn_ids:
                wire.turns.release(turn_id)
            await wire.sandboxes.has_released(4)
            reason, message = await refused(client.create("other", prompts("answer two")))
            assert reason is Reason.DATABASE_UNAVAILABLE
            assert "no space is left" in message
            assert "free some" in message
            async for response in client.stub.WatchBatch(pb.WatchBatchRequest(name="full")):
                if "no space is left" in response.batch.reason:
                    break
            await asyncio.to_thread(stack.close)
        found = await client.until("full", items.BATCH_STATE_COMPLETED)
        assert (found.done_count, found.failed_count, found.reason) == (4, 0, "")
        assert [item.attempt for item in await client.items("full")] == [1] * 4
        assert len(wire.turns.requests) == 4
        await client.create("other", prompts("answer two"))
        await client.until("other", items.BATCH_STATE_COMPLETED)


async def test_another_scheduler_finds_the_turns_of_the_one_before(site: Site, wire: Wire) -> None:
    async with site.scheduler(wire) as client:
        await client.create("moved", prompts(*["wait"] * 3), worker_count=3)
        turn_ids = await wire.turns.started(3)
        for turn_id in turn_ids:
            await wire.turns.watched(turn_id, 1)
    async with site.scheduler(wire) as client:
        for turn_id in turn_ids:
            await wire.turns.watched(turn_id, 2)
            wire.turns.release(turn_id)
        found = await client.until("moved", items.BATCH_STATE_COMPLETED)
        assert found.done_count == 3
    assert sorted(wire.turns.requests) == sorted(turn_ids)
