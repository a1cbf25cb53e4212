"""The text of Jupyter notebooks (.ipynb): cells, and what they have printed."""

import json
import re
from typing import Any, cast

from agent_service.documents.parts import Text, Unreadable

_COLOURS = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


def read(data: bytes, text: Text) -> None:
    """Add its cells, each below a line that says which it is."""
    try:
        notebook: Any = json.loads(data)
        cells: Any = (
            notebook["cells"] if "cells" in notebook else notebook["worksheets"][0]["cells"]
        )
        for number, cell in enumerate(cells, 1):
            text.add(f"[cell {number}: {cell['cell_type']}]")
            _add(text, cell.get("source", cell.get("input", "")))
            for output in cell.get("outputs", ()):
                _add_output(text, output)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise Unreadable("it is no notebook") from error


def _add_output(text: Text, output: Any) -> None:
    kind = output["output_type"]
    text.add(f"[{kind}]")
    if kind in ("error", "pyerr"):
        _add(text, "\n".join(output.get("traceback", ())) or output["evalue"])
        return
    shown: dict[str, Any] = output.get("data", output)
    if "text/plain" in shown or "text" in shown:
        _add(text, shown.get("text/plain", shown.get("text")))
    for name in shown:
        if name.startswith("image/"):
            text.add(f"[{name}]")


def _add(text: Text, said: Any) -> None:
    """Text is stored whole, or as a list of its lines."""
    whole = "".join(cast("list[str]", said)) if isinstance(said, list) else str(said)
    whole = _COLOURS.sub("", whole).rstrip("\n")
    if whole:
        text.add(whole)
