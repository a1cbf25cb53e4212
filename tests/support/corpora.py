"""The corpora that the command classes and the threat scan are measured on."""

import json
import os
from pathlib import Path
from typing import Any

from tests.support.requirements import require


def rows(name: str) -> list[dict[str, Any]]:
    """The rows of a corpus in the folder that HERMES_CORPORA names; skips where it is unset."""
    folder = os.environ.get("HERMES_CORPORA", "")
    path = Path(folder) / name
    require("corpora", bool(folder) and path.is_file(), "HERMES_CORPORA names no folder with them")
    return [json.loads(line) for line in path.read_text().splitlines()]
