"""Runs of environments through the scheduler."""

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from agent_service.clients.jobs import ask_scheduler
from agent_service.records.jobs import RunOptions, SchedulerRefused
from hermes.scheduler.v1 import batch_item_pb2 as items_pb
from hermes.scheduler.v1 import batch_pb2 as pb
from hermes.scheduler.v1.batch_pb2_grpc import BatchServiceStub
from services.errors import InvalidArgument
from services.home.batches.dataset import Upload
from services.home.batches.environment import (
    find_environment,
    list_environments,
    load_tasks,
    make_prompts,
)
from services.home.batches.requests import creation_requests
from services.home.batches.reward import reward
from services.home.paths import HomePaths
from services.rpc.channels import Channels
from services.rpc.messages import enum_word, message_of

_COUNTS = ("item_count", "running_count", "done_count", "success_count", "failed_count")
_PAGE = 1000


class SchedulerEnvironments:
    """Environments of the home, run as batches."""

    def __init__(self, channels: Channels, home: HomePaths, upload: Upload) -> None:
        self._channels = channels
        self._home = home
        self._upload = upload

    @property
    def _stub(self) -> BatchServiceStub:
        return BatchServiceStub(self._channels.to("scheduler"))

    async def list(self, profile: str) -> Mapping[str, Any]:
        return await asyncio.to_thread(_count_tasks, self._home.profile(profile))

    async def start(self, profile: str, key: str, options: RunOptions) -> Mapping[str, Any]:
        name = f"{options.environment}.{hashlib.sha256(key.encode()).hexdigest()[:8]}"
        with suppress(SchedulerRefused):  # it is not there yet
            return await self.get(profile, name)
        home = self._home.profile(profile)
        found = await asyncio.to_thread(find_environment, home, options.environment)
        sizes = options.group_size, options.groups
        prompts = await make_prompts(found, self._upload, *sizes, options.seed)
        how = message_of(options, items_pb.BatchOptions)
        answer = await ask_scheduler(
            lambda: self._stub.CreateBatch(creation_requests(profile, name, how, prompts))
        )
        return _view(answer.batch)

    async def get(self, profile: str, run: str) -> Mapping[str, Any]:
        request = pb.GetBatchRequest(profile=profile, name=run)
        return _view((await ask_scheduler(lambda: self._stub.GetBatch(request))).batch)

    async def stop(self, profile: str, run: str) -> Mapping[str, Any]:
        request = pb.StopBatchRequest(profile=profile, name=run)
        return _view((await ask_scheduler(lambda: self._stub.StopBatch(request))).batch)

    async def results(self, profile: str, run: str) -> Sequence[Mapping[str, Any]]:
        request = pb.ListItemsRequest(profile=profile, name=run, ended_only=True, page_size=_PAGE)
        found = list[Mapping[str, Any]]()
        while True:
            page = await ask_scheduler(lambda: self._stub.ListItems(request))
            found += map(_attempt, page.items)
            if not page.next_page_token:
                return found
            request.page_token = page.next_page_token


def _count_tasks(home: HomePaths) -> Mapping[str, int | str]:
    found = dict[str, int | str]()
    for each in list_environments(home):
        try:
            found[each.name] = len(load_tasks(each))
        except InvalidArgument as error:
            found[each.name] = error.message
    return found


def _view(batch: items_pb.Batch) -> Mapping[str, Any]:
    state = enum_word(items_pb.BatchState.DESCRIPTOR, batch.state)
    counts = {name: getattr(batch, name) for name in _COUNTS}
    cost = {"cost_usd": batch.usage.cost_micro_usd / 1e6}
    why = {"reason": batch.reason} if batch.reason else {}
    return {"run": batch.name, "state": state, **counts, **cost, **why}


def _attempt(item: items_pb.BatchItem) -> Mapping[str, Any]:
    return {
        "id": item.prompt.item_id,
        "score": item.result.score,
        "reward": round(reward(item), 4),
        "finish_reason": item.result.finish_reason,
    }
