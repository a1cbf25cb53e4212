"""A library of skills for tests, on the disk as a home has it."""

import asyncio
import json
from collections.abc import Coroutine, Mapping
from pathlib import Path
from typing import Any, TypeVar

from agent_service.profiles.skills.files import HomeSkillFiles
from agent_service.profiles.skills.shelf import ProfileSkills
from agent_service.security.threats import ThreatScanner
from services.clock import Clock
from tests.fakes.clock import ManualClock

T = TypeVar("T")


def run(work: Coroutine[Any, Any, T]) -> T:
    """Do something asynchronous for a test that itself reads and writes files."""
    return asyncio.run(work)


def document(name: str, description: str = "does things", body: str = "Do it.", **more: str) -> str:
    """A SKILL.md."""
    fields = "".join(f"{key}: {value}\n" for key, value in more.items())
    return f"---\nname: {name}\ndescription: {description}\n{fields}---\n{body}\n"


def put(root: Path, path: str, text: str) -> Path:
    """Write a file of the library."""
    target = root / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text)
    return target


def put_skill(root: Path, folder: str, text: str = "") -> Path:
    """Write a skill's SKILL.md."""
    return put(root, f"{folder}/SKILL.md", text or document(folder.rpartition("/")[2]))


def skills(root: Path, clock: Clock | None = None) -> ProfileSkills:
    """What serves the library."""
    return ProfileSkills(HomeSkillFiles(root), clock or ManualClock(), ThreatScanner())


def usage(root: Path) -> dict[str, Any]:
    """The usage records."""
    return json.loads((root / ".usage.json").read_text())


class Kept:
    """What a session keeps, as JSON has it."""

    def __init__(self) -> None:
        self.values: dict[str, str] = {}
        """Each as JSON."""

    async def get(self, name: str) -> Any:
        """The stored value, or None."""
        return json.loads(self.values.get(name, "null"))

    async def add(self, name: str, text: str) -> None:
        """Add a text to a set of them."""
        self.values[name] = json.dumps(sorted({*(await self.get(name) or ()), text}))

    async def put(self, name: str, value: Mapping[str, Any]) -> None:
        """Store a value."""
        self.values[name] = json.dumps(value)
