"""The skills that come with Hermes, as tests look at them and try them."""

import re
from pathlib import Path
from textwrap import dedent

ROOT = Path(__file__).parents[2] / "agent_service" / "profiles" / "skills" / "bundled"
FOLDERS = sorted(path.parent for path in ROOT.glob("*/*/SKILL.md"))

_BLOCK = re.compile(r"^ *```sh runnable\n(?P<lines>.*?)^ *```$", re.DOTALL | re.MULTILINE)


def runnable(folder: Path) -> list[str]:
    """The commands of a skill's text that can be run as they stand there, in their order."""
    text = (folder / "SKILL.md").read_text()
    return [dedent(found["lines"]).strip() for found in _BLOCK.finditer(text)]
