"""Environments: named files of tasks whose results are scored.

A bundled one and the files `environments/NAME.jsonl` of a home. A line is an item of a data set
with a check, or a task of software engineering.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from random import Random
from shutil import rmtree
from tempfile import mkdtemp
from typing import TypeAlias

from msgspec import Struct

from hermes.scheduler.v1.batch_item_pb2 import BatchPrompt
from services.errors import InvalidArgument, NotFound
from services.home.batches.dataset import (
    DatasetItem,
    Upload,
    batch_prompt,
    parse_item,
    read_dataset,
)
from services.home.batches.swe_task import SweTask, parse_task, task_item
from services.home.paths import HomePaths
from services.validation import MAX_ID_CHARS, check_id, json_object

TERMINAL = "terminal_test_env"
"""The bundled environment."""
SWE = "hermes_swe_env"
"""The environment for tasks of software engineering; the home has its file."""
TOOLSETS = ("terminal", "file")
"""What its items may use by default."""
_MAX_SUFFIX_CHARS = 7
_SHOWN = 5
"""How many problems of a file an error names."""

Task: TypeAlias = DatasetItem | SweTask


class Environment(Struct, frozen=True):
    """A named file of tasks."""

    name: str
    path: Path


def list_environments(home: HomePaths) -> Sequence[Environment]:
    """Return the environments by name, also one whose file is not there yet."""
    found = {TERMINAL: Path(__file__).with_name(f"{TERMINAL}.jsonl")}
    found[SWE] = home.environments / f"{SWE}.jsonl"
    found |= {path.stem: path for path in home.environments.glob("*.jsonl")}
    return [Environment(name, found[name]) for name in sorted(found)]


def find_environment(home: HomePaths, name: str) -> Environment:
    """Return an environment; NotFound names those that there are."""
    there = list_environments(home)
    for each in there:
        if each.name == name:
            return each
    names = ", ".join(each.name for each in there)
    raise NotFound(f"there is no environment {name}; there are {names}")


def load_tasks(environment: Environment) -> Sequence[Task]:
    """Read the tasks; InvalidArgument says which lines are wrong."""
    path = environment.path
    if not path.exists():
        raise InvalidArgument(f"{environment.name} has no tasks yet; write one a line into {path}")
    tasks, problems = read_dataset(path, _parse)
    if problems:
        raise InvalidArgument("\n".join(problems[:_SHOWN]))
    if not tasks:
        raise InvalidArgument(f"{path} has no tasks")
    return tasks


def _parse(line: bytes, number: int, folder: Path) -> Task:
    if "repository" in (json_object(line) or {}):
        task = parse_task(line, folder)
    else:
        task = parse_item(line, number, folder)
        if not task.check.strip():
            raise InvalidArgument("a task needs a check, which scores it")
    check_id("id", task.id, MAX_ID_CHARS - _MAX_SUFFIX_CHARS)
    return task


async def make_prompts(
    environment: Environment,
    upload: Upload,
    group_size: int = 1,
    group_count: int = 0,
    seed: int = 0,
    toolsets: Sequence[str] = TOOLSETS,
) -> Sequence[BatchPrompt]:
    """Return items with ids such as `TASK.1`; each `group_size` in a row are a group of one task.

    Without a count, there is a group of each task in the file's order; else of tasks in an order
    that the seed decides, and all of them before one comes again. InvalidArgument says which tasks
    cannot be used.
    """
    tasks = await asyncio.to_thread(load_tasks, environment)
    numbers = range(group_count or len(tasks))
    chosen = (task_index(n, len(tasks), seed) if group_count else n for n in numbers)
    made, counts = dict[int, BatchPrompt](), Counter[int]()
    prompts = list[BatchPrompt]()
    for index in chosen:
        if index not in made:
            made[index] = await _prompt(tasks[index], environment.path.parent, toolsets, upload)
        for _ in range(group_size):
            counts[index] += 1
            prompts.append(BatchPrompt())
            prompts[-1].CopyFrom(made[index])
            prompts[-1].item_id = f"{tasks[index].id}.{counts[index]}"
    return prompts


async def _prompt(task: Task, folder: Path, toolsets: Sequence[str], upload: Upload) -> BatchPrompt:
    if isinstance(task, DatasetItem):
        return await batch_prompt(task, folder, toolsets, upload)
    packed = Path(await asyncio.to_thread(mkdtemp, prefix="hermes-task-"))
    try:
        item = await asyncio.to_thread(task_item, task, packed)
        return await batch_prompt(item, packed, toolsets, upload)
    except InvalidArgument as error:
        raise InvalidArgument(f"task {task.id}: {error}") from None
    finally:
        await asyncio.to_thread(rmtree, packed)


def task_index(number: int, task_count: int, seed: int) -> int:
    """Return the task of a group: each in an order by the seed, then all again in another."""
    turn, place = divmod(number, task_count)
    return _order(task_count, f"{seed}:{turn}")[place]


@lru_cache(maxsize=1)
def _order(task_count: int, seed: str) -> Sequence[int]:
    order = list(range(task_count))
    Random(seed).shuffle(order)  # noqa: S311 - no secret
    return order
