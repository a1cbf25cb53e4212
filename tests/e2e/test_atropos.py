"""`hermes rl serve` with Atropos' own server, a trainer, and crashes in between."""

import json
import re
import signal
import subprocess
from collections import Counter
from collections.abc import Generator
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace
from tokenizers import Tokenizer

from services.cli.console import EXIT_INTERRUPTED
from tests.e2e.backends import sandboxed
from tests.e2e.deployment import four_processes, one_process, running
from tests.e2e.home import REPOSITORY, Home
from tests.e2e.llama_server import llama_server, weights
from tests.e2e.model import calls, model_process, rule, terminal_call
from tests.e2e.processes import wait_until
from tests.support.atropos import (
    BIN,
    EOS,
    ScoredGroup,
    Trainer,
    atropos_server,
    make_tokenizer,
    make_tokenizer_of,
)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

GROUP_SIZE = 4
STEPS = 4
CHANCE = "od -An -N1 -tu1 /dev/urandom | awk '{print $1 / 255}'"
TASKS = ("one", "two", "three")
_SCORE = re.compile(r"echo ([0-9.]+) > score")
_GROUP = re.compile(r"group (\d+), \w+: ")
# Attempts at a task differ in what they score, but for one task, which teaches nothing.
DULL = rule("toss three", calls(terminal_call("echo 0.5 > score")), {"text": "It is done."})
TOSS = rule(
    "toss",
    [calls(terminal_call(f"sleep 0.3; echo {n % 4 / 4} > score")) for n in range(1000)],
    {"text": "It is done."},
)


@pytest.fixture
def trainer() -> Generator[Trainer]:
    with atropos_server() as server:
        yield server


def with_coins(home: Home, check: str = "cat score") -> Home:
    """Return a home with an environment, in which `hermes` runs where Atropos is installed."""
    folder = home.path / "environments"
    folder.mkdir()
    items = [{"id": name, "prompt": f"toss {name}", "check": check} for name in TASKS]
    (folder / "coins.jsonl").write_text("".join(f"{json.dumps(item)}\n" for item in items))
    found = ":".join([str(REPOSITORY), str(REPOSITORY / "protos/gen")])
    home = home.set(PYTHONPATH=found, HF_HUB_OFFLINE="1", TRANSFORMERS_VERBOSITY="error")
    return replace(home, prefix=(str(BIN / "python"),), forks=False)


class Serving:
    """`hermes rl serve` of the environment."""

    def __init__(self, home: Home, trainer: Trainer, tokenizer: Path, *options: str) -> None:
        where = ("--tokenizer", tokenizer, "--atropos", trainer.url)
        self._argv = ("rl", "serve", "coins", *where, *options)
        self._home, self._said = home, tokenizer.parent / "serve.stderr"
        self.process = self.start()

    def start(self) -> "subprocess.Popen[str]":
        with self._said.open("a") as stderr:
            return self._home.spawn(*self._argv, stdout=subprocess.DEVNULL, stderr=stderr)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()

    def said(self) -> str:
        return self._said.read_text()

    def ended(self) -> Counter[int]:
        """The groups that have ended, and how often."""
        return Counter(int(number) for number in _GROUP.findall(self.said()))

    def under_way(self) -> set[int]:
        """The groups that have a batch."""
        found = self._home.run("batch", "list", "--json").json
        ends = (batch["name"].removeprefix("coins.serve.") for batch in found)
        return {int(end) for end in ends if end.isdecimal()}


def check_group(group: ScoredGroup, tokenizer: Tokenizer) -> None:
    """The masked tokens are what the model said, and the scores what came of it."""
    assert len(group.scores) == GROUP_SIZE == len(group.tokens)
    for tokens, masks, score in zip(group.tokens, group.masks, group.scores, strict=True):
        assert len(tokens) == len(masks)
        assert all(mask in (-100, token) for mask, token in zip(masks, tokens, strict=True))
        kept = [mask for mask in masks if mask != -100]
        generated = tokenizer.decode(kept, skip_special_tokens=False)
        found = _SCORE.search(generated)
        assert found is not None
        assert float(found[1]) == score
        assert generated.startswith("<tool_call>terminal {")
        assert generated.endswith(f"</tool_call>{EOS}It is done.{EOS}")
        whole = tokenizer.decode(list(tokens), skip_special_tokens=False)
        assert re.search(r"<\|im_start\|>user\ntoss (one|two)", whole)
        assert whole.startswith("terminal\n") or "\nterminal\n" in whole


def test_a_trainer_gets_every_group_although_agent_and_command_are_killed(
    trainer: Trainer, tmp_path: Path
) -> None:
    folder = make_tokenizer(tmp_path / "tokenizer")
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    with (
        model_process(tmp_path, [DULL, TOSS]) as model,
        running(
            four_processes(tmp_path / "hermes", model.url, sandboxed("bubblewrap"))
        ) as deployment,
    ):
        trainer.register(2 * GROUP_SIZE, STEPS)
        home = with_coins(deployment.client)
        with closing(Serving(home, trainer, folder)) as serving:
            received = [*trainer.batch()]
            deployment.servers["agent"].kill()
            deployment.start()
            received += trainer.batch()
            serving.close()
            left = serving.under_way()
            serving.process = serving.start()
            while len(received) < 2 * STEPS:
                received += trainer.batch()
            assert serving.process.wait(60) == 0, serving.said()
            begun = {*serving.ended(), *serving.under_way()}
    for group in received:
        check_group(group, tokenizer)
    ended = serving.ended()
    assert left <= ended.keys(), serving.said()
    assert begun == set(range(len(begun))), serving.said()
    assert {number for number, times in ended.items() if times > 1} <= left, serving.said()
    assert ", three: 0.50, 0.50, 0.50, 0.50\n" in serving.said()


def test_tasks_are_evaluated_between_steps_and_ctrl_c_keeps_what_was_begun(
    trainer: Trainer, tmp_path: Path
) -> None:
    folder = make_tokenizer(tmp_path / "tokenizer")
    with model_process(tmp_path, [DULL, TOSS]) as model:
        made = one_process(tmp_path / "hermes", model.url, sandboxed("bubblewrap"))
        with running(made) as deployment:
            trainer.register(GROUP_SIZE, 100)
            home, options = with_coins(deployment.client), ("--groups", "1", "--eval-every", "2")
            with closing(Serving(home, trainer, folder, *options)) as serving:
                trainer.batch()
                trainer.batch()
                wait_until(lambda: "step 2: mean score" in serving.said(), "an evaluation", 60)
                wait_until(lambda: bool(serving.under_way()), "another group", 60)
                serving.process.send_signal(signal.SIGINT)
                assert serving.process.wait(30) == EXIT_INTERRUPTED, serving.said()
                states = {each["state"] for each in home.run("batch", "list", "--json").json}
    assert re.search(r"step 2: mean score 0\.\d+ of 3 tasks", serving.said())
    assert states <= {"stopped", "completed"}
    assert "Traceback" not in serving.said()


def test_a_real_model_trains_on_the_tokens_that_it_generated(
    trainer: Trainer, tmp_path: Path
) -> None:
    config = {**sandboxed("bubblewrap"), "model": {"max_tokens": 60, "logprobs": True}}
    with llama_server() as url:
        made = one_process(tmp_path / "hermes", url, config, HERMES_MODEL="")
        folder = make_tokenizer_of(weights(), tmp_path / "tokenizer")
        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        with running(made) as deployment:
            trainer.register(GROUP_SIZE, 1)
            # A score by chance, as groups in which all are the same are not sent.
            home = with_coins(deployment.client, check=CHANCE)
            with closing(Serving(home, trainer, folder, "--groups", "1", "--max-turns", "1")):
                (group,) = trainer.batch(timeout_s=200)
    assert group.inference_logprobs
    rows = zip(group.tokens, group.masks, group.inference_logprobs, strict=True)
    for tokens, masks, logprobs in rows:
        assert len(tokens) == len(masks) == len(logprobs)
        places = {place for place, mask in enumerate(masks) if mask != -100}
        assert places == {place for place, logprob in enumerate(logprobs) if logprob <= 0}
        assert len(places) > 3
        assert tokenizer.decode(list(tokens[: min(places)])).endswith("assistant\n")
        assert all(masks[place] == tokens[place] for place in places)
