"""What an evaluation of an environment says."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from hermes.scheduler.v1.batch_item_pb2 import ITEM_STATE_FAILED, BatchItem
from services.home.batches.reward import reward

ALL = "all"
"""The row for all tasks."""

Group: TypeAlias = Sequence[BatchItem]
Figures: TypeAlias = Mapping[str, Mapping[str, Any]]


def summarize(groups: Sequence[Group]) -> Figures:
    """Return the figures of all tasks, and of the tasks of each tag."""
    tags = sorted({tag for group in groups for tag in group[0].prompt.tags})
    chosen = {tag: [group for group in groups if tag in group[0].prompt.tags] for tag in tags}
    return {name: _figures(found) for name, found in {ALL: groups, **chosen}.items() if found}


def _figures(groups: Sequence[Group]) -> Mapping[str, Any]:
    items = [item for group in groups for item in group]
    return {
        "tasks": len(groups),
        "attempts": len(items),
        "failed": sum(item.state == ITEM_STATE_FAILED for item in items),
        "mean_score": _mean([item.result.score for item in items]),
        "mean_reward": _mean([reward(item) for item in items]),
        "pass_1": _mean([_mean([_is_solved(item) for item in group]) for group in groups]),
        "pass_k": _mean([any(map(_is_solved, group)) for group in groups]),
    }


def _is_solved(item: BatchItem) -> bool:
    return item.result.score == 1


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def task_id(item: BatchItem) -> str:
    """Return the id of an item's task."""
    return item.prompt.item_id.rpartition(".")[0]
