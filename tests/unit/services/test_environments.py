"""Environments: which there are, what they refuse, and which items a run of one has."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import to_builtins
from msgspec.structs import replace

from services.errors import InvalidArgument, NotFound
from services.home.batches.environment import (
    SWE,
    TERMINAL,
    find_environment,
    list_environments,
    load_tasks,
    make_items,
)
from services.home.batches.swe_task import SweTask
from services.home.paths import HomePaths
from tests.support.calculator import calculator_task

TASK = {"prompt": "do it", "check": "true"}


@pytest.fixture
def home(tmp_path: Path) -> HomePaths:
    return HomePaths(tmp_path, tmp_path)


@pytest.fixture
def write(home: HomePaths) -> Callable[..., None]:
    """Write an environment's tasks."""

    def write(name: str, *tasks: Any) -> None:
        home.environments.mkdir(exist_ok=True)
        path = home.environments / f"{name}.jsonl"
        path.write_text("".join(f"{json.dumps(task)}\n" for task in tasks))

    return write


def test_files_of_the_home_add_to_and_replace_the_bundled_one(
    home: HomePaths, write: Callable[..., None]
) -> None:
    assert [each.name for each in list_environments(home)] == [SWE, TERMINAL]
    assert len(load_tasks(find_environment(home, TERMINAL))) >= 12
    write("mine", TASK)
    assert [each.name for each in list_environments(home)] == [SWE, "mine", TERMINAL]
    write(TERMINAL, TASK)
    assert len(load_tasks(find_environment(home, TERMINAL))) == 1
    with pytest.raises(NotFound, match=f"no environment other.*{SWE}, mine, {TERMINAL}"):
        find_environment(home, "other")
    with pytest.raises(InvalidArgument, match=f"no tasks yet.*environments/{SWE}.jsonl"):
        load_tasks(find_environment(home, SWE))


@pytest.mark.parametrize(
    ("tasks", "why"),
    [
        ([TASK, {"prompt": "do it"}], ":2: a task needs a check"),
        ([TASK | {"files": [TERMINAL]}], ":1: there is no file"),
        ([TASK | {"image": "mine.jsonl"}], ":1: a task has no files"),
        ([TASK | {"id": "a"}, TASK | {"id": "a"}], ":2: line 1 has the id a"),
        ([TASK | {"id": "x" * 122}], ":1: id is not an id"),
        ([{"id": "a", "repository": "x"}], ":1: .*commit"),
        ([], "has no tasks"),
    ],
)
def test_tasks_that_cannot_be_used_are_named(
    home: HomePaths, write: Callable[..., None], tasks: list[Any], why: str
) -> None:
    write("mine", *tasks)
    with pytest.raises(InvalidArgument, match=why):
        load_tasks(find_environment(home, "mine"))


def test_a_line_with_a_repository_is_a_task_of_software_engineering(
    home: HomePaths, write: Callable[..., None]
) -> None:
    given = {"repository": "/nowhere", "commit": "1", "prompt": "fix it", "tests": ["true"]}
    write("mine", TASK | {"id": "plain"}, given | {"id": "swe", "tags": ["easy"]})
    plain, task = load_tasks(find_environment(home, "mine"))
    assert isinstance(task, SweTask)
    assert [each.id for each in make_items([plain], 2)] == ["plain.1", "plain.2"]
    with pytest.raises(InvalidArgument, match="git"):
        make_items([task], 1)


def test_a_relative_repository_is_beside_the_file(
    home: HomePaths, write: Callable[..., None]
) -> None:
    task = calculator_task(home.environments / "calc")
    write("mine", {**to_builtins(task), "repository": "./calc"})
    assert make_items(load_tasks(find_environment(home, "mine")), 1)[0].check


def test_the_seed_decides_the_order_and_every_task_comes_before_one_comes_again(
    home: HomePaths, write: Callable[..., None]
) -> None:
    write("mine", *(TASK | {"id": name} for name in "abcdef"))
    tasks = load_tasks(find_environment(home, "mine"))
    assert [each.id for each in make_items(tasks, 1)] == [f"{name}.1" for name in "abcdef"]
    items = make_items(tasks, 2, 15, seed=7)
    assert items == make_items(tasks, 2, 15, seed=7)
    assert items != make_items(tasks, 2, 15, seed=8)
    ids = [each.id for each in items]
    assert len({*ids}) == len(ids) == 30
    groups = [{each.partition(".")[0] for each in ids[n : n + 2]} for n in range(0, 30, 2)]
    assert [len(group) for group in groups] == [1] * 15
    for first in (0, 6):
        assert set[str]().union(*groups[first : first + 6]) == {*"abcdef"}
    # Fewer groups are the first of more.
    assert make_items(tasks, 2, 4, seed=7) == items[:8]
    assert {replace(each, id="") for each in items} == {replace(tasks[0], id="")}
