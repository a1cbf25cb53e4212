"""Each skill that comes with Hermes is tried in real sandboxes, as a model would go about it."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from agent_service.skills.bundling import BundledSkills
from agent_service.skills.home_files import HomeSkillFiles
from agent_service.skills.shipped import Package
from tests.bundled import FOLDERS, SCRIPTS, runnable
from tests.integration.agent_tool_parts import Tools, tools_over

pytestmark = pytest.mark.asyncio(loop_scope="module")

_REPOSITORY = """\
git init -q -b main . && git config user.email a@b.c && git config user.name A
printf 'def half(n):\\n    return n / 2\\n' > half.py
printf 'import unittest\\nfrom half import half\\nclass T(unittest.TestCase):\\n' > test_half.py
printf '    def test_half(self):\\n        self.assertEqual(half(6), 3)\\n' >> test_half.py
git add . && git commit -q -m first"""

PREPARED = {
    "git-recovery": f"{_REPOSITORY}\ngit commit -q --allow-empty -m lost && git reset -q HEAD~1",
    "code-review": _REPOSITORY,
    "test-writing": _REPOSITORY,
}
"""What a skill's commands are tried on."""

EXPECTED = {
    "systematic-debugging": ["0 of 5 runs failed (0.0 %)", "    5  exit 0"],
    "git-recovery": ["## main", "lost"],
    "python-project": ["Made demo-tool", "usage: demo-tool [-h] name"],
    "shell-scripting": ["would look through .", "two words.txt"],
    "csv-and-json-analysis": [
        "price   number  1      2         4           7.25    10.5",
        "Roma  2     14.5",
        "Roma  10.5",
    ],
    "data-cleaning": ["'2026-13-01'", "came, 3 go", "came, 2 go", "wrote clean"],
    "sqlite-explorer": ["table orders: 3 rows", "Roma  15", "Oslo  7"],
    "log-analysis": ["app.log:1", "request <n> took <n> ms", "2026-01-05T10:07         1"],
    "search-and-replace": ["-See old_name(1).", "+See new_name(1).", "wrote 1 files", "none left"],
    "meeting-minutes": ["LATE  2026-01-10  @ann", "2 items, 1 overdue"],
    "document-summaries": ["Costs", "part-001.md", "1500 does not stand in the source"],
    "text-reports": ["| web     |    12000 |     31 |", "api     800  ██"],
    "task-planning": ["1. schema (2 h), texts (1 h)", "schema -> api -> page -> release (10 h)"],
    "writing-skills": ["0 to mend, 0 to consider"],
    "server-checkup": [],
    "code-review": [],
    "test-writing": [],
    "web-research": [],
    "scheduling-jobs": [],
}
"""What they must print, in this order."""

FURTHER = {
    "systematic-debugging": (
        r"""
R=/skills/systematic-debugging/scripts/repeat.py
python3 $R --times 9 --stop --keep f.txt -- sh -c 'echo bad; exit 4' || cat f.txt
python3 $R --times 2 --timeout 0.2 -- sleep 5 || true
python3 $R -- nothing-there || true
""",
        ["1 was the first to fail: exit 4", "bad", "timeout", "cannot run nothing-there"],
    ),
    "code-review": (
        r"""
printf 'def half(n):\n    breakpoint()\n    return n / 2\n' > half.py
git diff | python3 /skills/code-review/scripts/overview.py --fail || echo found
""",
        ["+1      0  half.py", "half.py:2: left-over debugging", "and no test", "found"],
    ),
    "test-writing": (
        r"""
M=/skills/test-writing/scripts/mutate.py
python3 $M half.py -- python3 -m unittest -q && git diff --quiet && echo restored
sed -i 's/assertEqual.*/assertTrue(half(6))/' test_half.py
python3 $M half.py -- python3 -m unittest -q || git diff --stat
""",
        ["2 of 2 changes were noticed", "restored", "half.py:2: ", "test_half.py |"],
    ),
    "web-research": (
        r"""
printf '# Q\n## Claims\n- It is 42 %% [1]\n- Known\n## Sources\n' > notes.md
printf '[1] A, 2026-01-01, https://a.org\n[2] B\n' >> notes.md
python3 /skills/web-research/scripts/notes.py notes.md || true
""",
        ["[2] has no address", "figure with one source", "claim without", "2 claims, 2 sources"],
    ),
    "server-checkup": (
        r"""
touch -d '4 days ago' old && sh /skills/server-checkup/scripts/checkup.sh . /none
""",
        ["== memory", "% in use", "== disks", "== newest file in .", "no such folder"],
    ),
    "task-planning": (
        r"""
printf 'a: 1h after b\nb: 1h after a\n' > c.txt
python3 /skills/task-planning/scripts/order.py c.txt || true
""",
        ["wait for each other: a, b, a"],
    ),
    "text-reports": (
        r"""
printf 'n,v\na,2\nb,0\n' > 1.csv; printf 'n,v\na,3\nc,1\n' > 2.csv
python3 /skills/text-reports/scripts/render.py change 1.csv 2.csv --label n --value v
""",
        ["+50.0 %", "| c   |        |     1 |", "new", "gone"],
    ),
    "data-cleaning": (
        r"""
cat clean.csv
""",
        ["name,amount,day", "Ada,1234.50,2026-02-03", "Bob,,2026"],
    ),
    "sqlite-explorer": (
        r"""
python3 /skills/sqlite-explorer/scripts/explore.py query shop.db 'delete from people' || true
""",
        ["attempt to write a readonly database"],
    ),
    "csv-and-json-analysis": (
        r"""
echo '{"data":{"items":[{"id":1,"s":"open"},{"id":2,"s":"shut"}]}}' > o.json
python3 /skills/csv-and-json-analysis/scripts/table.py rows o.json --path data.items \
  --where 's~^op' --json
""",
        ['"id": "1"'],
    ),
}
"""What is tried beside what the text says."""

WITH_FILES = {path.parents[1].name for path in SCRIPTS} | {"shell-scripting"}


@pytest.fixture(scope="module", params=["bubblewrap", "docker"])
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
    if name in PREPARED:
        await tools.shell(begin + PREPARED[name])
    printed = ""
    for command in await asyncio.to_thread(runnable, folder):
        allowed = name == "meeting-minutes"
        done = await tools("terminal", command=begin + command, workdir="/workspace")
        assert not done.is_error or allowed, done.text
        printed += done.text + "\n"
    check_order(printed, EXPECTED[name])
    if name in FURTHER:
        command, expected = FURTHER[name]
        check_order(await tools.shell(begin + command), expected)


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
