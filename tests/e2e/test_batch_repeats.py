"""`hermes batch run` again: with the same seed, other workers, another budget, another data set."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.e2e.backends import sandboxed
from tests.e2e.home import Home
from tests.e2e.test_batch import dataset

_VARIES = {"session_id", "turn_id", "start_time", "finish_time"}


def _items(home: Home, name: str) -> list[dict[str, Any]]:
    items = [json.loads(line) for line in home.run("batch", "items", name).out.splitlines()]
    for item in items:
        item["result"]["tools"] = [each["name"] for each in item["result"]["tools"]]
    return [{key: item[key] for key in item.keys() - _VARIES} for item in items]


def _uploads(home: Home) -> list[Any]:
    with closing(sqlite3.connect(home.path / "state" / "agent.db")) as database:
        return database.execute("SELECT sha256 FROM upload").fetchall()


def test_a_seed_decides_the_toolsets_whatever_the_workers(home: Home, tmp_path: Path) -> None:
    (home.path / "distributions.yaml").write_text("mine: {terminal: 50, file: 50, todo: 50}\n")
    prompts = [{"prompt": "touch a file", "tags": ["easy"]} for _ in range(12)]
    path = dataset(tmp_path, prompts)
    run = ("batch", "run", path, "--distribution", "mine", "--json")
    for name, workers in (("one", "1"), ("eight", "8")):
        home.run(*run, "--run", name, "--seed", "5", "--workers", workers)
    one, eight = _items(home, "one"), _items(home, "eight")
    assert one == eight
    assert [item["prompt"]["item_id"] for item in one] == [str(number) for number in range(1, 13)]
    assert len({tuple(item["prompt"]["toolsets"]) for item in one}) > 3
    shown = home.run("batch", "show", "one", "--json").json
    assert (shown["options"]["distribution"], shown["options"]["seed"]) == ("mine", 5)
    home.run(*run, "--run", "other", "--seed", "6")
    assert [item["prompt"]["toolsets"] for item in _items(home, "other")] != [
        item["prompt"]["toolsets"] for item in one
    ]


def test_toolsets_that_do_not_exist_are_refused(home: Home, tmp_path: Path) -> None:
    path = dataset(tmp_path, [{"prompt": "hello"}])
    run = ("batch", "run", path, "--run", "first")
    assert "did you mean coding?" in home.run(*run, "--distribution", "codnig").err
    assert "did you mean web?" in home.run(*run, "--toolsets", "todo,webb").err
    assert "use its toolset file" in home.run(*run, "--toolsets", "read_file").err
    assert home.run("batch", "list", "--json").json == []
    warned = home.run(*run, "--toolsets", "todo,homeassistant", "--json")
    assert "no tools for homeassistant" in warned.err
    assert warned.json["done_count"] == 1


def test_the_same_command_goes_on_with_other_workers_and_budget(
    home: Home, backend: str, tmp_path: Path
) -> None:
    (tmp_path / "notes.txt").write_text("Buy milk.")
    prompts = [{"prompt": f"read {number}", "files": ["notes.txt"]} for number in range(4)]
    run = ("batch", "run", dataset(tmp_path, prompts), "--run", "dear", "--workers", "1")
    prices = {"models": {"scripted": {"price": {"input": 1.0, "output": 1.0}}}}
    home.configure(sandboxed(backend) | prices)
    stopped = home.run(*run, "--budget", "0.000001")
    assert stopped.status == 3
    assert "hermes batch resume dear --budget N" in stopped.out
    sent = _uploads(home)
    (listed,) = home.run("batch", "list", "--json").json
    assert (listed["state"], listed["done_count"]) == ("budget_reached", 1)
    more = home.run(*run, "--workers", "3", "--budget", "5")
    assert (
        "dear continues: 1 of 4 items are done; from now on with 3 workers and a budget of $5.00"
        in more.out
    )
    assert more.status == 0
    assert _uploads(home) == sent, "the file is stored once"
    again = home.run(*run)
    assert "dear was run before: 4 of 4 items are done" in again.out
    assert len(_items(home, "dear")) == 4


def test_another_batch_of_the_name_is_refused(home: Home, tmp_path: Path) -> None:
    path = dataset(tmp_path, [{"prompt": "hello"}])
    home.run("batch", "run", path, "--run", "first", "--toolsets", "todo")
    seeded = home.run("batch", "run", path, "--run", "first", "--toolsets", "todo", "--seed", "2")
    assert "there is a batch first with another seed" in seeded.err
    path = dataset(tmp_path, [{"prompt": "hello there"}])
    other = home.run("batch", "run", path, "--run", "first", "--toolsets", "todo")
    assert "there is a batch first with another data set" in other.err
    assert "choose another name" in other.err
