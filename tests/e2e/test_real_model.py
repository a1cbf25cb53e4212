"""A real model: a conversation streamed to the terminal, and a batch of tasks."""

import json
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from services.home.batches import environment
from tests.e2e.backends import sandboxed
from tests.e2e.home import Home
from tests.e2e.llama_server import llama_server
from tests.e2e.terminal import terminal

ITEMS = 10


@pytest.fixture(scope="module")
def llama_url() -> Iterator[str]:
    """The base URL of a real model's server."""
    with llama_server() as url:
        yield url


@pytest.mark.timeout(150)
def test_an_answer_streams_from_a_real_model(llama_url: str, tmp_path: Path) -> None:
    # A model so small answers in one word, or does not come to an end, also when it is asked on.
    config = {**sandboxed("bubblewrap"), "model": {"max_tokens": 60}}
    home = Home.make(tmp_path, config, HERMES_BASE_URL=llama_url)
    with terminal(home, "chat", "-q", "Describe Paris in three sentences.") as asking:
        grown = {asking.screen}
        while asking.process.poll() is None:
            grown.add(asking.screen)
            time.sleep(0.005)
        status, answer = asking.wait_end(120), asking.screen
    assert status == 0 or "The answer was cut off" in answer, answer
    assert len(answer.split()) > 3
    assert len(grown) > 3, "the answer came at once and not piece by piece"


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_ten_tasks_end_and_keep_their_logprobs(llama_url: str, tmp_path: Path) -> None:
    config = {**sandboxed("bubblewrap"), "model": {"max_tokens": 60, "logprobs": True}}
    home = Home.make(tmp_path, config, HERMES_BASE_URL=llama_url)
    tasks = Path(environment.__file__).with_name(f"{environment.TERMINAL}.jsonl")
    dataset = tmp_path / "ten.jsonl"
    with tasks.open(encoding="utf-8") as lines:
        dataset.write_text("".join(islice(lines, ITEMS)), encoding="utf-8")
    options = ("--run", "ten", "--workers", "2", "--toolsets", "terminal,file", "--max-turns", "2")
    ran = home.run("batch", "run", dataset, *options, "--json", timeout_s=350)
    assert (ran.status, ran.json["state"], ran.json["done_count"]) == (0, "completed", ITEMS), (
        ran.err
    )
    assert ran.json["failed_count"] == 0
    assert ran.json["mean_score"] is not None
    out = tmp_path / "data"
    exported = home.run("batch", "export", "ten", "--out", out, "--format", "openai")
    assert exported.status == 0, exported.err
    files = out.rglob("*.jsonl")
    records = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    assert len(records) == ITEMS
    for record in records:
        said = [each for each in record["messages"] if each["role"] == "assistant"]
        assert said
        for message in said:
            tokens = message["logprobs"]["content"]
            assert "".join(each["token"] for each in tokens).startswith(message["content"][:20])
            assert all(each["logprob"] <= 0 and each["id"] >= 0 for each in tokens)
