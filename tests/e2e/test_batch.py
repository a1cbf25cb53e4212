"""`hermes batch` as a person uses it: run, look, stop, go on."""

import json
import re
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.e2e.backends import sandboxed
from tests.e2e.deployment import four_processes, running
from tests.e2e.home import Home
from tests.e2e.model import ModelProcess
from tests.e2e.processes import wait_until


def dataset(folder: Path, items: Sequence[dict[str, Any] | str]) -> Path:
    path = folder / "prompts.jsonl"
    lines = (each if isinstance(each, str) else json.dumps(each) for each in items)
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def test_each_prompt_runs_once_and_is_scored(home: Home, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("Buy milk.")
    path = dataset(
        tmp_path,
        [
            {"id": "made", "prompt": "touch a file", "check": "test -e made"},
            {
                "id": "half",
                "prompt": "hello",
                "files": ["notes.txt"],
                "setup": "test -s uploads/notes.txt && echo 0.5 > score",
                "check": "cat score",
            },
            {"id": "none", "prompt": "hello there", "check": "exit 3", "tags": ["easy"]},
            {"id": "file", "prompt": "read it", "files": ["notes.txt"]},
        ],
    )
    page = tmp_path / "first.html"
    found = home.run("batch", "run", path, "--run", "first", "--html", page, "--json").json
    assert (found["state"], found["done_count"], found["failed_count"]) == ("completed", 4, 0)
    written = page.read_text(encoding="utf-8")
    assert ">terminal</span><span>1 call, " in written
    assert written.count("<tr>") == 3, "a heading, and the items half and none"
    assert found["mean_score"] == 0.5
    assert found["success_count"] == 2
    assert found["finish_reasons"] == {"completed": 4}
    tools = found["tools"]
    assert (tools["terminal"]["calls"], tools["terminal"]["failures"]) == (1, 0)
    printed = home.run("batch", "items", "first").out.splitlines()
    items = [json.loads(line) for line in printed]
    assert [each["prompt"]["item_id"] for each in items] == ["made", "half", "none", "file"]
    assert [each["result"]["score"] for each in items] == [1, 0.5, 0, None]
    assert items[2]["prompt"]["tags"] == ["easy"]
    assert "Buy milk." in items[3]["result"]["answer"]
    sessions = [each["session_id"] for each in items]
    # The same again is the same batch, which is done.
    assert home.run("batch", "run", path, "--run", "first", "--json").json["done_count"] == 4
    again = [json.loads(line) for line in home.run("batch", "items", "first").out.splitlines()]
    assert [each["session_id"] for each in again] == sessions
    shown = home.run("batch", "show", "first", "--html", tmp_path / "again.html").out
    assert f"wrote {tmp_path / 'again.html'}" in shown
    assert (tmp_path / "again.html").read_text(encoding="utf-8") == written
    assert re.search(r"mean score +0\.500", shown)
    assert re.search(r"terminal +1 +0 ", shown)
    path = dataset(tmp_path, [{"prompt": "another"}])
    refused = home.run("batch", "run", path, "--run", "first")
    assert refused.status == 1
    assert "first" in refused.err
    assert home.run("batch", "remove", "first").status == 0
    assert home.run("batch", "list", "--json").json == []


def test_lines_that_cannot_be_used_are_named(home: Home, tmp_path: Path) -> None:
    path = dataset(
        tmp_path,
        [
            '{"prompt": "hello"',
            {"promt": "hello"},
            {"id": "a", "prompt": "hello"},
            "",
            {"id": "a", "prompt": "hello"},
            {"prompt": "hello", "files": ["missing.txt"]},
            {"prompt": ""},
        ],
    )
    refused = home.run("batch", "run", path, "--run", "bad")
    assert refused.status == 2
    for number, why in (
        (1, "truncated"),
        (2, "promt"),
        (5, "line 3"),
        (6, "missing.txt"),
        (7, "1 to"),
    ):
        assert re.search(rf"prompts\.jsonl:{number}: .*{why}", refused.err), refused.err
    assert "--skip-invalid" in refused.err
    again = ("batch", "run", path, "--run", "bad", "--skip-invalid")
    assert "--toolsets names none" in home.run(*again, "--toolsets", "").err
    assert "/proc/x cannot be made" in home.run(*again, "--html", "/proc/x/y.html").err
    assert home.run("batch", "list", "--json").json == []
    found = home.run(*again, "--json").json
    assert (found["state"], found["item_count"]) == ("completed", 1)


def test_ctrl_c_stops_and_resume_goes_on(home: Home, tmp_path: Path) -> None:
    naps = [{"prompt": f"a nap then {number}"} for number in range(6)]
    path = dataset(tmp_path, naps)
    run = home.spawn("batch", "run", path, "--run", "naps", "--workers", "2", "--json")
    with run:
        # It is stored when the first command has begun.
        wait_until_listed(home, "naps")
        run.send_signal(signal.SIGINT)
        out, err = run.communicate(timeout=50)
    stopped = json.loads(out)
    assert run.returncode == 3
    assert "Ctrl-C again" in err
    assert stopped["state"] == "stopped"
    assert 0 < stopped["done_count"] < 6
    assert home.run("batch", "resume", "naps", "--workers", "6", "--json").json["done_count"] == 6
    ids = [
        json.loads(line)["prompt"]["item_id"]
        for line in home.run("batch", "items", "naps").out.splitlines()
    ]
    assert ids == ["1", "2", "3", "4", "5", "6"]


def test_a_model_that_the_endpoint_lacks_stops_the_batch(home: Home, tmp_path: Path) -> None:
    path = dataset(tmp_path, [{"prompt": f"ask a stranger {number}"} for number in range(3)])
    found = home.run("batch", "run", path, "--run", "lost", "--workers", "1", "--json")
    assert found.status == 3
    assert (found.json["state"], found.json["done_count"]) == ("stopped", 0)
    assert "has no model" in found.json["reason"]


def wait_until_listed(home: Home, name: str) -> None:
    def is_listed() -> bool:
        listed = home.run("batch", "list", "--json").json
        return any(each["name"] == name and each["running_count"] for each in listed)

    wait_until(is_listed, f"{name} runs", 45)


def test_a_batch_runs_on_remote_services_from_any_home(model: ModelProcess, tmp_path: Path) -> None:
    """As the chart's Job does, whose pods may be replaced."""
    (tmp_path / "notes.txt").write_text("Buy milk.")
    naps = [{"prompt": f"a nap then {number}"} for number in range(4)]
    path = dataset(tmp_path, [{"prompt": "read it", "files": ["notes.txt"]}, *naps])
    with running(four_processes(tmp_path, model.url, sandboxed("bubblewrap"))) as deployment:
        known = {
            name: value
            for name, value in deployment.client.variables.items()
            if name not in ("HERMES_EXECUTOR_ADDRESS", "HERMES_GATEWAY_ADDRESS")
        }
        first, second = (Home(tmp_path / name / "home", known) for name in ("one", "two"))
        for each in (first, second):
            each.path.parent.mkdir()
        argv = ("batch", "run", path, "--run", "away", "--workers", "2", "--json")
        with first.spawn(*argv) as run:
            wait_until_listed(second, "away")
            run.kill()
        found = second.run(*argv).json
        assert (found["state"], found["done_count"], found["failed_count"]) == ("completed", 5, 0)
        printed = first.run("batch", "items", "away").out.splitlines()
        items = [json.loads(line) for line in printed]
        assert "Buy milk." in items[0]["result"]["answer"]
        assert len({each["session_id"] for each in items}) == 5
        assert {each["attempt"] for each in items} == {1}
