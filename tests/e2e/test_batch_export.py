"""`hermes batch export`: each item that ended is one record, in the order of the data set."""

import json
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pyarrow.parquet as pq
from openai.types.chat import ChatCompletionMessageParam
from pydantic import TypeAdapter

from services.home.trajectories.formats import parse_trajectory
from tests.e2e.backends import sandboxed
from tests.e2e.deployment import one_process
from tests.e2e.home import Home
from tests.e2e.model import model_process, rule
from tests.e2e.test_batch import dataset

MESSAGES: TypeAdapter[list[ChatCompletionMessageParam]] = TypeAdapter(
    list[ChatCompletionMessageParam]
)


def _lines(folder: Path) -> Sequence[bytes]:
    return (folder / "data" / "train.jsonl").read_bytes().splitlines()


def _ids(home: Home, folder: Path, name: str) -> Sequence[str]:
    assert home.run("batch", "export", name, "--out", folder).status == 0
    return [parse_trajectory(line).facts.id for line in _lines(folder)]


def test_a_batch_becomes_a_data_set(home: Home, tmp_path: Path) -> None:
    path = dataset(
        tmp_path,
        [
            {"id": "made", "prompt": "touch a file", "check": "test -e made", "tags": ["easy"]},
            {"id": "half", "prompt": "hello", "check": "echo 0.5"},
            {"id": "none", "prompt": "hello there"},
            {"id": "broken", "prompt": "hello", "setup": "exit 3"},
        ],
    )
    home.run("batch", "run", path, "--run", "first", "--toolsets", "terminal", "--json")
    out = tmp_path / "set"
    export = ("batch", "export", "first", "--out", out, "--format", "openai")
    counts = home.run(*export, "--json").json
    assert counts == {"train": 3, "failed": 0, "no conversation": 1}
    records: list[dict[str, Any]] = [json.loads(line) for line in _lines(out)]
    assert [each["id"] for each in records] == ["made", "half", "none"]
    assert [each.get("score") for each in records] == [1, 0.5, None]
    assert [each.get("tags", []) for each in records] == [["easy"], [], []]
    for record in records:
        MESSAGES.validate_python(record["messages"])
        assert (record["toolsets"], record["seed"]) == (["terminal"], 0)
        assert (record["model"], record["finish_reason"]) == ("scripted", "completed")
        assert {each["function"]["name"] for each in record["tools"]} == {"terminal", "process"}
    roles = [each["role"] for each in records[0]["messages"]]
    assert roles == ["system", "user", "assistant", "tool", "assistant"]
    check = [each for each in records[1]["messages"] if "0.5" in str(each.get("content"))]
    assert check == []
    # The same folder gets what another format and a filter leave.
    said = home.run("batch", "export", "first", "--out", out, "--min-score", "0.6", "--parquet")
    assert "wrote 1 trajectory" in said.out
    assert "3 low score" in said.out
    [row] = cast("Any", pq).read_table(out / "data" / "train-00000-of-00001.parquet").to_pylist()
    assert (row["id"], row["score"], row["seed"]) == ("made", 1, 0)
    missing = home.run("batch", "export", "nothing", "--out", tmp_path / "other")
    assert missing.status == 1
    assert not (tmp_path / "other").exists()


def test_of_an_item_that_was_tried_again_the_last_attempt_counts(
    backend: str, tmp_path: Path
) -> None:
    answers = [{"status": 400}, {"text": "the second time"}]
    (tmp_path / "model").mkdir()
    with model_process(tmp_path / "model", (rule("try", answers),)) as model:
        home = one_process(tmp_path, model.url, sandboxed(backend)).client
        path = dataset(tmp_path, [{"id": "one", "prompt": "try it"}])
        assert home.run("batch", "run", path, "--run", "tried", "--json").json["failed_count"] == 1
        home.run("batch", "resume", "tried", "--retry-failed")
        [item] = home.run("batch", "items", "tried").out.splitlines()
        assert json.loads(item)["attempt"] == 2
        out = tmp_path / "set"
        assert _ids(home, out, "tried") == ["one"]
    assert not (out / "data" / "failed.jsonl").exists()
    [record] = map(parse_trajectory, _lines(out))
    assert [message.text for message in record.messages] == ["try it", "the second time"]


def test_nothing_is_in_it_twice_whatever_was_killed(home: Home, tmp_path: Path) -> None:
    items = [{"id": f"i{number}", "prompt": f"a nap then {number}"} for number in range(6)]
    path, out = dataset(tmp_path, items), tmp_path / "set"
    command = ("batch", "run", path, "--run", "naps", "--workers", "2", "--json")
    with home.spawn(*command) as run:
        while not any(one["done_count"] for one in home.run("batch", "list", "--json").json):
            pass
        # While it runs, what has ended is exported.
        early = _ids(home, out, "naps")
        run.send_signal(signal.SIGKILL)
        run.communicate(timeout=50)
    assert set(early) < {each["id"] for each in items}
    assert home.run(*command).json["done_count"] == 6
    assert _ids(home, out, "naps") == [each["id"] for each in items]
