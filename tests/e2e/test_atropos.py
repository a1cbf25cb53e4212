"""`hermes rl serve` with Atropos' own server, a trainer, and crashes in between."""

import json
import re
import subprocess
from collections.abc import Generator
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace
from tokenizers import Tokenizer

from tests.e2e.backends import sandboxed
from tests.e2e.deployment import four_processes, running
from tests.e2e.home import REPOSITORY, Home
from tests.e2e.model import calls, model_process, rule, terminal_call
from tests.e2e.processes import wait_until
from tests.support.atropos import BIN, EOS, ScoredGroup, Trainer, atropos_server, make_tokenizer

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

GROUP_SIZE = 4
STEPS = 4
TASKS = ("one", "two", "three")
_SCORE = re.compile(r"echo ([0-9.]+) > score")
_GROUP = re.compile(r"group (\d+), \w+: (.+)")
# Attempts at the same prompt differ in what they score.
TOSS = rule(
    "toss",
    [calls(terminal_call(f"sleep 0.3; echo {n % 4 / 4} > score")) for n in range(1000)],
    {"text": "It is done."},
)


@pytest.fixture
def trainer() -> Generator[Trainer]:
    with atropos_server() as server:
        yield server


def with_coins(home: Home) -> Home:
    """Return a home with an environment, in which `hermes` runs where Atropos is installed."""
    folder = home.path / "environments"
    folder.mkdir()
    items = [{"id": name, "prompt": f"toss {name}", "check": "cat score"} for name in TASKS]
    (folder / "coins.jsonl").write_text("".join(f"{json.dumps(item)}\n" for item in items))
    found = ":".join([str(REPOSITORY), str(REPOSITORY / "protos/gen")])
    home = home.set(PYTHONPATH=found, HF_HUB_OFFLINE="1", TRANSFORMERS_VERBOSITY="error")
    return replace(home, prefix=(str(BIN / "python"),), forks=False)


class Serving:
    """`hermes rl serve` of the environment."""

    def __init__(self, home: Home, trainer: Trainer, tokenizer: Path, folder: Path) -> None:
        where = ("--tokenizer", tokenizer, "--atropos", trainer.url)
        self._argv = ("rl", "serve", "coins", *where, "--eval-every", "2")
        self._home, self._said = home, folder / "serve.stderr"
        self.process = self.start()

    def start(self) -> "subprocess.Popen[str]":
        with self._said.open("a") as stderr:
            return self._home.spawn(*self._argv, stdout=subprocess.DEVNULL, stderr=stderr)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()

    def said(self) -> str:
        return self._said.read_text()

    def ended(self) -> dict[int, str]:
        """The scores of each group that has ended."""
        return {int(number): scores for number, scores in _GROUP.findall(self.said())}

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
        assert re.search(r"<\|im_start\|>user\ntoss (one|two|three)", whole)
        assert whole.startswith("terminal\n") or "\nterminal\n" in whole


def test_a_trainer_gets_every_group_although_agent_and_command_are_killed(
    trainer: Trainer, tmp_path: Path
) -> None:
    folder = make_tokenizer(tmp_path / "tokenizer")
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    with (
        model_process(tmp_path, [TOSS]) as model,
        running(
            four_processes(tmp_path / "hermes", model.url, sandboxed("bubblewrap"))
        ) as deployment,
    ):
        trainer.register(2 * GROUP_SIZE, STEPS)
        home = with_coins(deployment.client)
        with closing(Serving(home, trainer, folder, tmp_path)) as serving:
            received = [*trainer.batch()]
            deployment.servers["agent"].kill()
            deployment.start()
            received += trainer.batch()
            wait_until(lambda: "of 3 tasks" in serving.said(), "an evaluation", 60)
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
    shown = {", ".join(f"{score:.2f}" for score in group.scores) for group in received}
    assert shown <= {*ended.values()}
