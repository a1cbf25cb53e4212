"""Each skill that comes with Hermes is tried in real sandboxes, as a model would go about it."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from agent_service.profiles.skills.bundled_skills import BundledSkills, Package
from agent_service.profiles.skills.files import HomeSkillFiles
from tests.integration.agent_tool_parts import Tools, tools_over
from tests.support.bundled import FOLDERS, runnable

pytestmark = pytest.mark.asyncio(loop_scope="module")

_REPOSITORY = """\
git init -q -b main . && git config user.email a@b.c && git config user.name A
printf 'def half(n):\\n    return n / 2\\n' > half.py
printf 'import unittest\\nfrom half import half\\nclass T(unittest.TestCase):\\n' > test_half.py
printf '    def test_half(self):\\n        self.assertEqual(half(6), 3)\\n' >> test_half.py
git add . && git commit -q -m first
git commit -q --allow-empty -m lost && git reset -q HEAD~1"""

EXPECTED = {
    "systematic-debugging": ["0 of 5 runs failed"],
    "git-recovery": ["## main", "lost"],
    "shell-scripting": ["would look through .", "two words.txt"],
    "csv-and-json-analysis": ["Roma 14.5", "rows without a price: 1"],
    "sqlite-explorer": ["CREATE TABLE people", "Roma\t1"],
    "log-analysis": ["1 ERROR db <n>.<n>", "1 2026-01-05T10:07"],
    "search-and-replace": ["docs/a.md:1", "+See new_name(1).", "none left"],
    "meeting-minutes": ["@ann, due 2026-01-10", "@?, due ?"],
    "document-summaries": ["5:## Costs", "look at 1,500"],
    "text-reports": ["web            12,000  ██", "api               800  ██"],
}
"""What the commands of a skill must print, in this order."""

WITH_FILES = {folder.name for folder in FOLDERS if len(list(folder.iterdir())) > 1}


@pytest.fixture(
    scope="module", params=["bubblewrap", pytest.param("docker", marks=pytest.mark.slow)]
)
def backend(request: pytest.FixtureRequest) -> str:
    """Each backend in turn."""
    return request.param


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def tools(backend: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Tools]:
    """The tools of one session, whose profile has the skills."""
    async with tools_over(backend, tmp_path_factory.mktemp("home")) as opened:
        await BundledSkills(Package()).copy(HomeSkillFiles(opened.library))
        yield opened


@pytest.mark.parametrize("folder", FOLDERS, ids=[folder.name for folder in FOLDERS])
async def test_what_it_says_works(tools: Tools, folder: Path) -> None:
    name = folder.name
    told = await tools.text("skill_view", name=name)
    assert (f"/skills/{name}, read-only" in told) == (name in WITH_FILES)
    begin = f"set -e; mkdir -p /workspace/{name}; cd /workspace/{name}\n"
    if name == "git-recovery":
        await tools.shell(begin + _REPOSITORY)
    printed = ""
    for command in await asyncio.to_thread(runnable, folder):
        done = await tools("terminal", command=begin + command, workdir="/workspace")
        assert not done.is_error, done.text
        printed += done.text + "\n"
    check_order(printed, EXPECTED.get(name, []))


def check_order(text: str, expected: list[str]) -> None:
    at = 0
    for each in expected:
        found = text.find(each, at)
        assert found >= 0, f"{each!r} is missing in:\n{text}"
        at = found + len(each)


async def test_what_a_skill_has_can_be_run_and_not_be_changed(tools: Tools) -> None:
    await tools.text("skill_view", name="shell-scripting")
    said = await tools.shell(
        "cd /skills/shell-scripting && ls && cat templates/script.sh | head -n 1; "
        "./templates/script.sh --help | head -n 1; echo x > SKILL.md || echo refused; "
        "stat -c %a SKILL.md templates/script.sh"
    )
    check_order(said, ["SKILL.md", "references", "templates", "#!/usr/bin/env bash"])
    check_order(said, ["usage: script.sh", "refused", "444", "555"])


async def test_a_skill_that_changes_is_brought_anew(tools: Tools) -> None:
    content = "---\nname: greeting\ndescription: Greets. Use it to greet.\n---\nRun it.\n"
    await tools.text("skill_manage", action="create", name="greeting", content=content)
    write = {"action": "write_file", "name": "greeting", "file_path": "scripts/hi.sh"}
    await tools.text("skill_manage", **write, file_content="echo one\n")
    assert "cannot" in (await tools("terminal", command="ls /skills/greeting")).text
    await tools.text("skill_view", name="greeting")
    assert await tools.shell("sh /skills/greeting/scripts/hi.sh") == "one"
    await tools.text("skill_manage", **write, file_content="echo two\n")
    await tools.text("skill_manage", **{**write, "file_path": "scripts/b.sh"}, file_content="a\n")
    assert await tools.shell("cd /skills/greeting/scripts && sh hi.sh && ls") == "two\nb.sh\nhi.sh"
    folder = tools.library / "greeting" / "scripts"
    await asyncio.to_thread((folder / "hi.sh").write_text, "echo three\n")
    code = "from hermes_tools import terminal\nprint(terminal('sh /skills/greeting/scripts/hi.sh'))"
    assert "three" in await tools.text("execute_code", code=code)


async def test_a_new_sandbox_gets_them_too(tools: Tools) -> None:
    await tools.text("skill_view", name="task-planning")
    before = await tools.shell("ls /skills")
    # The supervisor is the parent of every command; without it the box ends.
    await tools("terminal", command="kill -9 $PPID; sleep 9", timeout=8)
    after = ""
    for _ in range(20):
        after = (await tools("terminal", command="ls /skills")).text
        if "task-planning" in after:
            break
        await asyncio.sleep(0.5)
    assert set(before.split()) <= set(after.split()), json.dumps([before, after])
