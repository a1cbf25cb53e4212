"""The program of a hook's process: reads events, one JSON object a line, and writes the results.

It imports nothing of Hermes. Its argument is the folder with `handler.py`, which is loaded with the
first event, and again whenever it has changed.
"""

import asyncio
import inspect
import json
import os
import sys
import traceback
from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, TextIO

Outcome = tuple[object, BaseException | None]


class Handler:
    """The function `handle` of a handler.py."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._handle: Callable[[str, Any], Any] | None = None
        self._loaded_ns = 0

    def call(self, runner: asyncio.Runner, event: str, context: object) -> Outcome:
        """Return the handler's result, or its error."""
        try:
            result = self._load()(event, context)
            if inspect.isawaitable(result):
                result = runner.run(_await(result))
            json.dumps(result)
        except BaseException as error:  # noqa: BLE001 - also sys.exit() ends only the call
            return None, error
        return result, None

    def _load(self) -> Callable[[str, Any], Any]:
        changed_ns = self._path.stat().st_mtime_ns
        if self._handle is None or changed_ns != self._loaded_ns:
            self._handle = None
            spec = spec_from_file_location("handler", self._path)
            assert spec is not None, "its name ends with .py"
            assert spec.loader is not None, "it is a file"
            module = module_from_spec(spec)
            spec.loader.exec_module(module)
            self._handle, self._loaded_ns = module.handle, changed_ns
        assert self._handle is not None, "it was loaded"
        return self._handle


async def _await(result: Any) -> object:
    return await result


def take_streams() -> tuple[TextIO, TextIO]:
    """Return standard input and output; what the handler prints goes to standard error."""
    requests = os.fdopen(os.dup(0), "r", encoding="utf-8")
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return requests, answers


def main() -> None:
    """Answer events until standard input ends."""
    requests, answers = take_streams()
    sys.path[0] = sys.argv[1]
    # An edited handler may have the size and the second of its bytecode.
    sys.dont_write_bytecode = True
    handler = Handler(Path(sys.argv[1], "handler.py"))
    with asyncio.Runner() as runner:
        for line in requests:
            said = json.loads(line)
            result, error = handler.call(runner, said["event"], said["context"])
            answer: dict[str, object] = {"result": result}
            if error is not None:
                answer = {"error": "".join(traceback.format_exception(error)).strip()}
            answers.write(json.dumps(answer) + "\n")
            answers.flush()


if __name__ == "__main__":
    main()
