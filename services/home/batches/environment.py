"""Environments: named files of tasks whose results are scored.

A bundled one and the files `environments/NAME.jsonl` of a home. A line is an item of a data set
with a check, or a task of software engineering.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from hermes.scheduler.v1.batch_item_pb2 import BatchPrompt
from services.errors import InvalidArgument, NotFound
from services.home.batches.dataset import DatasetItem, file_paths, parse_item
from services.home.batches.swe_task import SweTask, parse_task, task_item
from services.home.json_lines import parse_lines
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
    path, problems, lines = environment.path, list[str](), dict[str, int]()

    def parse(line: bytes, number: int) -> Task:
        task = _parse(line, number, path.parent)
        if lines.setdefault(task.id, number) != number:
            raise InvalidArgument(f"line {lines[task.id]} has the id {task.id}, too")
        return task

    if not path.exists():
        raise InvalidArgument(f"{environment.name} has no tasks yet; write one a line into {path}")
    tasks = list(parse_lines(path, parse, problems.append))
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
        if file_paths(task, folder):
            raise InvalidArgument("a task has no files; make them in its setup script")
        if not task.check.strip():
            raise InvalidArgument("a task needs a check, which scores it")
    check_id("id", task.id, MAX_ID_CHARS - _MAX_SUFFIX_CHARS)
    return task


def make_items(
    tasks: Sequence[Task], group_size: int, group_count: int = 0, seed: int = 0
) -> Sequence[DatasetItem]:
    """Return items with ids such as `TASK.1`; each `group_size` in a row are a group of one task.

    Without a count, there is a group of each task in the file's order; else of tasks in an order
    that the seed decides, and all of them before one comes again. InvalidArgument if a repository
    cannot be read.
    """
    chosen = _shuffled(len(tasks), group_count, seed) if group_count else range(len(tasks))
    made, counts = dict[int, DatasetItem](), dict[int, int]()
    items = list[DatasetItem]()
    for index in chosen:
        task = tasks[index]
        if index not in made:
            made[index] = task if isinstance(task, DatasetItem) else task_item(task)
        for _ in range(group_size):
            counts[index] = counts.get(index, 0) + 1
            items.append(replace(made[index], id=f"{task.id}.{counts[index]}"))
    return items


def _shuffled(task_count: int, group_count: int, seed: int) -> Iterator[int]:
    for first in range(0, group_count, task_count):
        order = list(range(task_count))
        Random(f"{seed}:{first // task_count}").shuffle(order)  # noqa: S311 - no secret
        yield from order[: group_count - first]


def batch_prompts(
    items: Sequence[DatasetItem], toolsets: Sequence[str] = TOOLSETS
) -> Sequence[BatchPrompt]:
    """Return items as a batch takes them."""
    return [
        BatchPrompt(
            item_id=item.id,
            prompt=item.prompt,
            setup=item.setup,
            check=item.check,
            tags=item.tags,
            toolsets=toolsets,
        )
        for item in items
    ]
