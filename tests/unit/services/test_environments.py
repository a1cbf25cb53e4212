"""Environments: which there are, what they refuse, and which items a run of one has."""

import asyncio
import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from msgspec import to_builtins

from hermes.common.v1.content_pb2 import MessageFile
from hermes.scheduler.v1.batch_item_pb2 import BatchPrompt
from services.errors import InvalidArgument, NotFound
from services.home.batches.dataset import Upload
from services.home.batches.environment import (
    SWE,
    TERMINAL,
    find_environment,
    list_environments,
    load_tasks,
    make_prompts,
)
from services.home.batches.swe_task import SweTask
from services.home.paths import HomePaths
from tests.support.calculator import calculator_task

TASK = {"prompt": "do it", "check": "true"}


async def upload(path: Path) -> MessageFile:
    """Take a file as the agent does."""
    return MessageFile(name=path.name)


def prompts_of(home: HomePaths, to: Upload = upload, **how: Any) -> Sequence[BatchPrompt]:
    """Return the items of the environment `mine`."""
    return asyncio.run(make_prompts(find_environment(home, "mine"), to, **how))


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
    _, task = load_tasks(find_environment(home, "mine"))
    assert isinstance(task, SweTask)
    with pytest.raises(InvalidArgument, match="task swe: git fetch: "):
        prompts_of(home)


def test_a_relative_repository_is_beside_the_file(
    home: HomePaths, write: Callable[..., None], tmp_path: Path
) -> None:
    task = calculator_task(home.environments / "calc")
    write("mine", {**to_builtins(task), "repository": "./calc"})
    sent = list[Path]()

    async def send(path: Path) -> MessageFile:
        assert await asyncio.to_thread(path.read_bytes)
        sent.append(path)
        return await upload(path)

    prompts = prompts_of(home, send, group_size=3)
    files = [([f.name for f in p.setup_files], [f.name for f in p.check_files]) for p in prompts]
    assert files == [(["repository.0"], ["tests.0"])] * 3
    assert [path.name for path in sent] == ["repository.0", "tests.0"]
    assert not sent[0].exists()


def test_files_of_an_item_are_beside_the_file(home: HomePaths, write: Callable[..., None]) -> None:
    files = {"files": ["note.txt"], "check_files": ["right.txt"]}
    home.environments.mkdir()
    for name in ("note.txt", "right.txt"):
        (home.environments / name).write_text(name)
    write("mine", TASK | files)
    (prompt,) = prompts_of(home)
    assert [file.name for file in (*prompt.files, *prompt.check_files)] == ["note.txt", "right.txt"]


def test_the_seed_decides_the_order_and_every_task_comes_before_one_comes_again(
    home: HomePaths, write: Callable[..., None]
) -> None:
    write("mine", *(TASK | {"id": name} for name in "abcdef"))
    make = partial(prompts_of, home)
    assert [each.item_id for each in make()] == [f"{name}.1" for name in "abcdef"]
    items = make(group_size=2, group_count=15, seed=7)
    assert items == make(group_size=2, group_count=15, seed=7)
    assert items != make(group_size=2, group_count=15, seed=8)
    ids = [each.item_id for each in items]
    assert len({*ids}) == len(ids) == 30
    groups = [{each.partition(".")[0] for each in ids[n : n + 2]} for n in range(0, 30, 2)]
    assert [len(group) for group in groups] == [1] * 15
    for first in (0, 6):
        assert set[str]().union(*groups[first : first + 6]) == {*"abcdef"}
    # Fewer groups are the first of more.
    assert make(group_size=2, group_count=4, seed=7) == items[:8]
    assert {each.prompt for each in items} == {TASK["prompt"]}
