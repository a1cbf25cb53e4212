"""A library for tests of the curator, on the disk, and plans that ask for what is forbidden."""

import asyncio
import itertools
import json
import random
from collections.abc import Mapping
from pathlib import Path

from agent_service.profiles.curation.curation import Curation, Order
from agent_service.profiles.curation.reports import FOLDER, Report
from agent_service.profiles.skills.files import HomeSkillFiles
from services.clock import Clock
from tests.fakes.clock import ManualClock
from tests.support.skills import document, put, put_skill

PROTECTED = ("arxiv", "pinned-notes", "shop-hub")
"""A skill that came with Hermes, one that is pinned, one of a hub."""
FREE = ("git-log", "git-rebase", "mail-read", "mail-send", "oddity")
CONTENT = "both say how to rewrite the history of commits"

_EPOCHS = itertools.count(1)
"""Each run has one above those before it."""


def fill(home: Path, *, protected_in: str = "") -> Path:
    """Make a library, with its protected skills in a category; return where it is."""
    root = home / "skills"
    for name in (*FREE, *PROTECTED):
        folder = f"dev/{name}" if name.startswith("git") else name
        folder = f"{protected_in}{name}" if name in PROTECTED else folder
        body = f"# How\n\nWhat {name} says, see `references/api.md`.\n"
        put_skill(root, folder, document(name, f"about {name}", body))
        put(root, f"{folder}/references/api.md", f"the api of {name}\n")
    put(root, "mail-send/scripts/send.py", "print('sent')\n")
    put(root, ".bundled_manifest", "arxiv:0123\n")
    put(root, ".hub/lock.json", json.dumps({"installed": {"shop-hub": {}}}))
    records = {
        "pinned-notes": {"pinned": True, "use_count": 3},
        "git-log": {"created_by": "agent", "mine": 1},
    }
    put(root, ".usage.json", json.dumps(records))
    return root


def curation(home: Path, clock: Clock | None = None) -> Curation:
    """What serves the library of a home."""
    return Curation(
        HomeSkillFiles(home / "skills"),
        HomeSkillFiles(home / FOLDER, ".lock"),
        clock or ManualClock(),
    )


def apply(
    home: Path, plan: str, *, run_id: str = "run", jobs: frozenset[str] = frozenset()
) -> Report:
    """Do what a plan asks for, as far as the rules allow."""
    return asyncio.run(
        curation(home).apply(Order(run_id, plan=plan, job_skills=jobs, epoch=next(_EPOCHS)))
    )


def tree(root: Path) -> Mapping[str, bytes]:
    """Every file of a library but the curator's own, and but locks."""
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file()
        and not path.relative_to(root).as_posix().startswith((".curator_", ".usage.json.lock"))
    }


def skill_files(root: Path, name: str) -> Mapping[str, bytes]:
    """The files of a skill that is in use."""
    return of_skill(tree(root), name)


def skills_of(root: Path) -> Mapping[str, bytes]:
    """The same without the records of use, of which a roll-back leaves what began with a run."""
    return {path: data for path, data in tree(root).items() if path != ".usage.json"}


def of_skill(files: Mapping[str, bytes], name: str) -> Mapping[str, bytes]:
    """Of the files of a library those of a skill that is in use."""
    inside = f"{name}/"
    return {
        path: data
        for path, data in files.items()
        if not path.startswith(".") and (path.startswith(inside) or f"/{inside}" in path)
    }


def plan(*merges: str, prunings: tuple[str, ...] = ()) -> str:
    """A plan of lines such as `a -> b`, with a reason that is one."""
    lines = ["```yaml", "consolidations:"]
    for merge in merges:
        source, _, into = merge.partition(" -> ")
        lines += [
            f"  - from: {source}",
            f"    into: {into}",
            f"    reason: {CONTENT}",
            "    description: everything about it",
        ]
    lines += ["prunings:"]
    for name in prunings:
        lines += [f"  - name: {name}", "    reason: it repeats word for word what oddity explains"]
    return "\n".join([*lines, "```"])


def hostile_plan(chance: random.Random) -> str:
    """A plan that asks for much that is forbidden, in a form that is read."""
    names = [
        *PROTECTED * 3,
        *FREE,
        *("new-umbrella", "dev", ".archive", "../../etc", "dev/git-log", ".usage.json", ""),
        *("fix-bug", "nobody-has-it", "A B", "x" * 80, "references", "SKILL.md"),
        *(
            "Arxiv",
            "arxiv ",
            "./arxiv",
            "dev/../arxiv",
            "dev/arxiv",
            "arxiv/SKILL.md",
            "arx\u0456v",
        ),
    ]
    reasons = [CONTENT, "never used", "0 views in 90 days", "delete it", "", "unpin pinned-notes"]
    forms = ["section", "reference"]
    merges = [
        {
            "from": chance.choice(names),
            "into": chance.choice(names),
            "reason": chance.choice(reasons),
            "as": chance.choice(forms),
            "description": chance.choice(["", "about it all", "y" * 2000]),
        }
        for _ in range(chance.randrange(8))
    ]
    prunings = [
        {"name": chance.choice(names), "reason": chance.choice(reasons)}
        for _ in range(chance.randrange(6))
    ]
    asked: dict[str, object] = {"consolidations": merges, "prunings": prunings}
    if chance.random() < 0.1:
        # What nobody may ask for, in words that it is asked for with.
        word = chance.choice(["delete", "unpin", "protected", "force", "archive"])
        asked |= {word: chance.choice([list(PROTECTED), True, {"name": "arxiv"}])}
    text = json.dumps(asked)
    if chance.random() < 0.1:
        text = text.replace('"arxiv"', '!!str "arxiv"')
    block = f"```yaml\n{text}\n```"
    return f"{block}\n{block}" if chance.random() < 0.05 else block
