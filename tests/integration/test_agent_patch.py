"""Changes to files of real sandboxes."""

import re
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from services.ids import new_id
from tests.integration.agent_tool_parts import Tools, tools_over
from tests.support.boxes import BUBBLEWRAP_FIRST

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=BUBBLEWRAP_FIRST)
async def tools(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Tools]:
    """The tools of one session for all tests of a backend."""
    async with tools_over(request.param, tmp_path_factory.mktemp("home")) as opened:
        yield opened


@pytest_asyncio.fixture(loop_scope="module")
async def folder(tools: Tools) -> str:
    """A new folder of the workspace."""
    name = new_id("test")
    await tools.shell(f"mkdir {name}")
    return name


async def test_a_patch_changes_what_stands_there_once(tools: Tools, folder: str) -> None:
    path = f"{folder}/a.sh"
    await tools.text("write_file", path=path, content="one\ntwo\nthree\n")
    await tools.shell(f"chmod 750 {path}")
    change = {"mode": "replace", "path": path, "old_string": "two", "new_string": "2\nII"}
    lines = (await tools.text("patch", **change)).splitlines()
    assert lines[:2] == [f"--- a/{path}", f"+++ b/{path}"]
    assert lines[3:] == [" one", "-two", "+2", "+II", " three"]
    assert await tools.shell(f"cat {path}; stat -c %a {path}") == "one\n2\nII\nthree\n750"
    assert "does not occur" in await tools.refusal("patch", **change)


async def test_a_file_of_windows_stays_one(tools: Tools, folder: str) -> None:
    path = f"{folder}/u.txt"
    await tools.shell(rf"printf '\377\376h\0\351\0\r\0\n\0b\0\r\0\n\0' >{path}")
    assert await tools.text("read_file", path=path) == "1|hé\n2|b"
    change = {"mode": "replace", "old_string": "hé\nb", "new_string": "hé\nü"}
    assert "-b\n+ü" in await tools.text("patch", path=path, **change)
    patch = f"*** Begin Patch\n*** Update File: {path}\n@@\n hé\n-ü\n+ö\n*** End Patch"
    assert "-ü\n+ö" in await tools.text("patch", mode="patch", patch=patch)
    said = await tools.shell(f"od -An -c {path} | tr -d ' \n'")
    assert said == r"377376h\0351\0\r\0\n\0366\0\r\0\n\0"


async def test_what_cannot_be_patched(tools: Tools, folder: str) -> None:
    change = {"mode": "replace", "old_string": "a", "new_string": "b"}
    await tools.shell(rf"printf 'a\0b' >{folder}/binary")
    assert "binary" in await tools.refusal("patch", path=f"{folder}/binary", **change)
    assert "There is no" in await tools.refusal("patch", path=f"{folder}/none", **change)
    assert await tools.refusal("patch", path="/usr/bin/env", **change)


async def test_a_patch_of_many_files(tools: Tools, folder: str) -> None:
    await tools.shell(
        f"cd {folder}; printf 'a\\nb\\n' >changed.py; printf 'x = (\\n' >moved.sh; "
        "chmod 750 moved.sh; "
        r"printf 'gone' >gone; printf 'caf\351\r\nold\r\n' >latin; printf '\0' >binary"
    )
    patch = f"""*** Begin Patch
*** Add File: {folder}/new/n.py
+def f(:
*** Update File: {folder}/changed.py
@@
-  a
+  A
*** Update File: {folder}/moved.sh
*** Move to: {folder}/deep/er.sh
@@
-x = (
+x = 1
*** Delete File: ./{folder}/gone
*** Update File: {folder}/latin
@@
-old
+new €
*** Update File: {folder}/binary
*** Move to: {folder}/b2
*** End Patch"""
    lines = (await tools.text("patch", mode="patch", patch=patch)).splitlines()
    for shown in ("+A", "+def f(:", "+x = 1", "-gone", f"Moved {folder}/binary to {folder}/b2."):
        assert shown in lines
    assert [f"--- a/{folder}/moved.sh", f"+++ b/{folder}/deep/er.sh"] in _pairs(lines)
    assert [f"--- a/./{folder}/gone", "+++ /dev/null"] in _pairs(lines)
    assert lines[-1].startswith(f"[{folder}/new/n.py is not valid Python since this change: line 1")
    found = await tools.shell(
        f"cd {folder}; cat new/n.py changed.py deep/er.sh; stat -c %a deep/er.sh; od -An -c latin; "
        "stat -c %s b2; find . -type f | sort"
    )
    assert found.split("\n") == [
        *(
            "def f(:",
            "A",
            "b",
            "x = 1",
            "750",
            r"   c   a   f 351  \r  \n   n   e   w     200  \r  \n",
        ),
        *("1", "./b2", "./changed.py", "./deep/er.sh", "./latin", "./new/n.py"),
    ]


def _pairs(lines: list[str]) -> list[list[str]]:
    return [lines[at : at + 2] for at in range(len(lines))]


@pytest.mark.parametrize(
    ("last", "why"),
    [
        ("*** Update File: {}/a\n@@\n one\n-three\n+3", "{}/a: hunk 1 of 1 .*line 2 is\ntwo"),
        ("*** Delete File: {}/none", "There is no {}/none"),
        ("*** Add File: {}/a\n+x", "{}/a already exists"),
        ("*** Update File: {}/a\n*** Move to: {}/b", "{}/b already exists"),
        ("*** Add File: /proc/none\n+x", "/proc/none"),
    ],
)
async def test_a_patch_that_does_not_fit_changes_nothing(
    tools: Tools, folder: str, last: str, why: str
) -> None:
    await tools.shell(f"cd {folder}; printf 'one\\ntwo\\n' >a; echo b >b; echo c >c; chmod 700 b")
    moved = "*** Update File: {0}/b\n*** Move to: {0}/d\n*** Delete File: {0}/c\n"
    first = "*** Add File: {0}/new\n+n\n" + ("" if "Move to" in last else moved)
    patch = (first + last.replace("{}", "{0}")).format(folder)
    refusal = await tools.refusal("patch", mode="patch", patch=patch)
    assert re.search(f"(?s){why.replace('{}', folder)}.*Nothing was changed", refusal), refusal
    found = await tools.shell(f"cd {folder}; ls; cat a b c; stat -c %a b")
    assert found.split() == ["a", "b", "c", "one", "two", "b", "c", "700"]


async def test_calls_of_one_message_change_a_file_in_their_order(tools: Tools, folder: str) -> None:
    path = f"{folder}/a"
    add = f"*** Update File: ./{path}\n@@\n-0\n+1"
    more = f"--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n-1\n+2"
    results = await tools.all(
        ("write_file", {"path": f"/workspace/{path}", "content": "0\n"}),
        ("patch", {"mode": "patch", "patch": add}),
        ("patch", {"mode": "patch", "patch": more}),
        ("read_file", {"path": path}),
    )
    assert [result.is_error for result in results] == [False] * 4
    assert results[3].text == "1|2"
