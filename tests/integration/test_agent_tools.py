"""The agent's tools in real sandboxes."""

import base64
import json
import re
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from fpdf import FPDF
from msgspec.structs import replace

from agent_service.records.model import ToolCall
from agent_service.records.sandbox import NOWHERE
from services.ids import new_id
from tests.integration.agent_tool_parts import Tools, tools_over

pytestmark = pytest.mark.asyncio(loop_scope="module")

MIB = 1024 * 1024


@pytest.fixture(scope="module", params=["bubblewrap", "docker"])
def backend(request: pytest.FixtureRequest) -> str:
    """Each backend in turn."""
    return request.param


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def tools(backend: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Tools]:
    """The tools of one session for all tests of a backend."""
    async with tools_over(backend, tmp_path_factory.mktemp("home")) as opened:
        yield opened


@pytest_asyncio.fixture(loop_scope="module")
async def folder(tools: Tools) -> str:
    """A new folder of the workspace."""
    name = new_id("test")
    await tools.shell(f"mkdir {name}")
    return name


async def _background(tools: Tools, command: str) -> str:
    text = await tools.text("terminal", command=command, background=True)
    return text.removesuffix(".").rpartition(" ")[2]


async def test_a_resumed_command_is_found_also_where_it_would_now_be_begun_in_other_words(
    tools: Tools, folder: str
) -> None:
    call = tools.pending("terminal", {"command": f"echo ran >>{folder}/log; echo done"})
    (first,) = await tools.run(call)
    other = ToolCall("call", "terminal", json.dumps({"command": "echo other"}))
    again = replace(call, call=other)
    (found,) = await tools.run(tools.resumed(again))
    assert (found.text, found.is_error) == (first.text, False) == ("done", False)
    assert await tools.shell(f"cat {folder}/log") == "ran"
    # A new call that has the key of another is no such case.
    (refused,) = await tools.run(again)
    assert refused.is_error
    assert "already used for another command" in refused.text


async def test_a_resumed_search_is_found_and_not_made_again(tools: Tools, folder: str) -> None:
    await tools.shell(f"mkdir -p {folder}; echo otter >{folder}/a")
    call = tools.pending("search_files", {"pattern": "otter", "path": folder})
    (first,) = await tools.run(call)
    assert "otter" in first.text
    await tools.shell(f"rm {folder}/a")
    (again,) = await tools.run(tools.resumed(call))
    assert (again.text, again.is_error) == (first.text, False)


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("terminal", {"command": "false"}),
        ("terminal", {"command": "true", "background": True}),
        ("write_file", {"path": "a", "content": "b"}),
        ("read_file", {"path": "none"}),
        ("search_files", {"pattern": "b"}),
        ("process", {"action": "list"}),
    ],
)
async def test_every_result_says_where_it_was_got(
    tools: Tools, backend: str, tool: str, arguments: dict[str, Any]
) -> None:
    await tools.shell("true")
    place = (await tools(tool, **arguments)).place
    assert (place.backend, place.isolation) == (backend, "namespace")
    assert place == (await tools("terminal", command="true")).place
    assert place.sandbox_id.startswith("sbx_")


async def test_what_needs_no_sandbox_names_none(tools: Tools) -> None:
    assert (await tools("todo")).place == NOWHERE


async def test_searching_lines(tools: Tools, folder: str) -> None:
    await tools.shell(
        f"cd {folder}; mkdir sub; printf 'alpha\\nbeta 1\\n' >a.py; printf 'beta 2\\n' >sub/b.py; "
        "printf 'beta 3\\n' >c.txt; echo gamma >d.py"
    )
    lines = {f"{folder}/a.py:2:beta 1", f"{folder}/sub/b.py:1:beta 2", f"{folder}/c.txt:1:beta 3"}
    search = {"path": folder, "pattern": "^beta [0-9]$"}
    found = await tools.text("search_files", **search)
    assert set(found.splitlines()) == lines
    found = await tools.text("search_files", **search, file_glob="*.py")
    assert set(found.splitlines()) == {line for line in lines if ".py:" in line}
    names = await tools.text("search_files", **search, output_mode="files_only")
    assert set(names.splitlines()) == {line.partition(":")[0] for line in lines}
    counts = await tools.text("search_files", **search, output_mode="count")
    assert set(counts.splitlines()) == {f"{line.partition(':')[0]}:1" for line in lines}
    around = await tools.text("search_files", path=f"{folder}/a.py", pattern="beta", context=1)
    assert around.splitlines() == [f"{folder}/a.py-1-alpha", f"{folder}/a.py:2:beta 1"]


async def test_searching_for_what_is_not_there_or_not_sensible(tools: Tools, folder: str) -> None:
    await tools.text("write_file", path=f"{folder}/a", content="alpha\n")
    for search in (
        {"pattern": "omega"},
        {"pattern": "-e"},
        {"pattern": "*.py", "target": "files"},
        {"pattern": "alpha", "file_glob": "*.py"},
    ):
        assert await tools.text("search_files", path=folder, **search) == "[nothing found]"
    assert await tools.refusal("search_files", path=folder, pattern="(")
    assert "none" in await tools.refusal("search_files", path=f"{folder}/none", pattern="a")
    missing = {"path": f"{folder}/none", "pattern": "a", "target": "files"}
    assert "none" in await tools.refusal("search_files", **missing)


async def test_a_search_is_read_in_parts(tools: Tools, folder: str) -> None:
    await tools.shell(f"cd {folder}; seq 1 30000 >numbers; touch 1.py 2.py 3.py 4.md")
    search = {"path": f"{folder}/numbers", "pattern": "[0-9]"}
    for offset in (0, 3, 29_998):
        found = await tools.text("search_files", **search, offset=offset, limit=3)
        last = min(offset + 3, 30_000)
        expected = [f"{folder}/numbers:{n}:{n}" for n in range(offset + 1, last + 1)]
        more = [f"[more; continue with offset {offset + 3}]"] if last < 30_000 else []
        assert found.splitlines() == expected + more
    files = {"path": folder, "pattern": "*.py", "target": "files"}
    assert await tools.text("search_files", **files, offset=1, limit=1) == (
        f"{folder}/2.py\n[more; continue with offset 2]"
    )
    found = await tools.text("search_files", **files)
    assert found.splitlines() == [f"{folder}/{n}.py" for n in (1, 2, 3)]


async def test_a_search_says_what_it_leaves_out(tools: Tools, folder: str) -> None:
    await tools.shell(
        f"cd {folder}; git init -q; mkdir .github build; echo otter >.github/ci.yml; "
        "echo build >.gitignore; for n in 1 2 3 4 5 6 7; do echo otter >build/$n; done; "
        "echo otter >.git/description"
    )
    found = await tools.text("search_files", path=folder, pattern="otter")
    named = ", ".join(f"{folder}/build/{n}" for n in range(1, 6))
    assert found.splitlines() == [
        f"{folder}/.github/ci.yml:1:otter",
        (
            "[Not shown are matches in files that .gitignore or a similar file excludes: "
            f"{named}, 2 more. Search such a file by its path.]"
        ),
    ]
    path = f"{folder}/build/7"
    assert await tools.text("search_files", path=path, pattern="otter") == f"{path}:1:otter"


async def test_listing_folders(tools: Tools, folder: str) -> None:
    await tools.shell(
        f"cd {folder}; mkdir -p a/b/c empty; printf 12345 >a/five; touch a/b/c/deep; "
        "ln -s . a/loop; mkfifo pipe"
    )
    assert await tools.text("list_directory", path=folder) == "a/\nempty/\npipe  (special)"
    deeper = await tools.text("list_directory", path=folder, depth=2)
    assert deeper == "a/\n  b/\n  five  5\n  loop@\nempty/\npipe  (special)"
    deepest = await tools.text("list_directory", path=f"{folder}/a", depth=5)
    assert deepest == "b/\n  c/\n    deep  0\nfive  5\nloop@"
    assert "empty" in await tools.text("list_directory", path=f"{folder}/empty")
    assert "There is no" in await tools.refusal("list_directory", path=f"{folder}/none")
    assert await tools.refusal("list_directory", path=f"{folder}/a/five")


async def test_a_background_command_is_talked_to(tools: Tools, folder: str) -> None:
    await tools.shell(f"cd {folder}")
    key = await _background(tools, "echo ready; echo oops >&2; while read l; do echo got $l; done")
    assert f"{key}: running" in await tools.text("process", action="list")
    assert "3 bytes" in await tools.text("process", action="write", session_id=key, data="one")
    await tools.text("process", action="submit", session_id=key, data=" two")
    waited = await tools.text("process", action="wait", session_id=key, timeout=0.3)
    assert f"{key}: running" in waited
    await tools.text("process", action="close", session_id=key)
    ended = await tools.text("process", action="wait", session_id=key)
    assert f"{key}: ended, exit code 0" in ended
    assert "ready\ngot one two" in ended
    assert "errors, bytes 0 to 5 of 5:\noops" in ended
    log = await tools.text("process", action="log", session_id=key, offset=6, limit=3)
    assert "output, bytes 6 to 9 of 18:\ngot" in log
    for offset, shown in ((10**30, "bytes 18 to 18"), (-(10**30), "bytes 0 to 18")):
        log = await tools.text("process", action="log", session_id=key, offset=offset)
        assert f"output, {shown} of 18" in log
    assert f"{key}: ended, exit code 0" in await tools.text("process", action="list")
    late = await tools.refusal("process", action="submit", session_id=key, data="late")
    assert "There is no process" in late


async def test_a_background_command_is_killed_with_its_children(tools: Tools, folder: str) -> None:
    pids = f"{folder}/pids"
    key = await _background(
        tools, f"cd /workspace; echo $$ >{pids}; sleep 99 & echo $! >>{pids}; wait"
    )
    await tools.shell(f"until [ $(wc -l <{pids}) = 2 ]; do sleep 0.02; done")
    assert "running" in await tools.text("process", action="poll", session_id=key)
    killed = await tools.text("process", action="kill", session_id=key)
    assert f"{key}: ended, It was cancelled" in killed
    assert await tools.shell(
        f"for p in $(cat {pids}); do kill -0 $p 2>/dev/null && echo $p; done; :"
    ) == ("[no output]")


async def test_reading_lines(tools: Tools, folder: str) -> None:
    path = f"{folder}/a"
    await tools.text("write_file", path=path, content="".join(f"line {n}\n" for n in range(1, 11)))
    part = await tools.text("read_file", path=path, offset=4, limit=2)
    assert part == "4|line 4\n5|line 5\n[5 more lines; continue with offset 6]"
    assert await tools.text("read_file", path=path, offset=10) == "10|line 10"
    assert "has 10 lines" in await tools.refusal("read_file", path=path, offset=11)
    await tools.shell(f"printf 'a\\fb\\nc' >{path}; grep -n c {path}")
    assert "2|c" in await tools.text("read_file", path=path)


async def test_reading_documents(tools: Tools, folder: str) -> None:
    pdf = FPDF()
    pdf.set_font("helvetica", size=12)
    pdf.add_page()
    for number in range(1, 6):
        pdf.cell(text=f"line {number}", new_x="LMARGIN", new_y="NEXT")
    data = base64.b64encode(pdf.output()).decode()
    await tools.shell(
        f"cd {folder}; echo {data} | base64 -d >a.pdf; cp a.pdf a.docx; echo {{ >a.ipynb"
    )
    part = await tools.text("read_file", path=f"{folder}/a.pdf", offset=2, limit=2)
    assert part == "2|line 1\n3|line 2\n[3 more lines; continue with offset 4]"
    assert (await tools.text("read_file", path=f"{folder}/a.pdf", offset=6)) == "6|line 5"
    notebook = await tools.text("read_file", path=f"{folder}/a.ipynb")
    assert notebook.startswith(
        "1|{\n[shown as raw text: it is too large or too damaged to be read]"
    )
    await tools.shell(f"cd {folder}; head -c 100 a.pdf >a.pdf.cut; mv a.pdf.cut a.pdf")
    assert "too damaged to be read" in await tools.refusal("read_file", path=f"{folder}/a.pdf")


async def test_what_is_read_of_unusual_files(tools: Tools, folder: str) -> None:
    await tools.shell(
        f"cd {folder}; touch empty; printf 'a\\0b' >binary; head -c {8 * MIB + 1} /dev/zero | "
        "tr '\\0' x >large; head -c 5000 large >long; printf 'caf\\351' >latin; mkfifo pipe"
    )
    assert "empty" in await tools.text("read_file", path=f"{folder}/empty")
    assert "binary file of 3 bytes" in await tools.refusal("read_file", path=f"{folder}/binary")
    assert "longer than" in await tools.refusal("read_file", path=f"{folder}/large")
    long = await tools.text("read_file", path=f"{folder}/long")
    assert long == f"1|{'x' * 2000}[… 3000 characters]"
    assert await tools.text("read_file", path=f"{folder}/latin") == "1|café"
    assert "There is no" in await tools.refusal("read_file", path=f"{folder}/none")
    for path in (folder, f"{folder}/pipe"):
        assert await tools.refusal("read_file", path=path)


async def test_writing_makes_folders_and_replaces(tools: Tools, folder: str) -> None:
    path = f"{folder}/new/deep/a"
    assert "2 lines, 7 bytes" in await tools.text("write_file", path=path, content="a\nbüß")
    assert await tools.shell(f"cat {path}") == "a\nbüß"
    await tools.text("write_file", path=f"/workspace/{path}", content="")
    assert await tools.shell(f"wc -c <{path}") == "0"
    assert await tools.refusal("write_file", path=f"{folder}/new", content="x")
    assert await tools.refusal("write_file", path=f"{path}/below", content="x")
    assert await tools.refusal("write_file", path="../outside", content="x")


async def test_a_command_begins_where_the_last_one_ended(tools: Tools, folder: str) -> None:
    await tools.text("terminal", command=f"cd /workspace/{folder} && mkdir sub && cd sub")
    assert await tools.text("terminal", command="pwd") == f"/workspace/{folder}/sub"
    assert await tools.text("terminal", command="pwd", workdir=folder) == f"/workspace/{folder}"
    assert await tools.text("terminal", command="pwd") == f"/workspace/{folder}/sub"
    await tools("terminal", command="cd ..; mkdir other; cd other; exit 3")
    assert await tools.text("terminal", command="pwd") == f"/workspace/{folder}/other"
    await tools("terminal", command="cd ../sub")
    assert await tools.text("terminal", command="pwd") == f"/workspace/{folder}/sub"
    await tools.shell(f"rm -r /workspace/{folder}/sub")
    assert await tools.text("terminal", command="pwd") == "/workspace"


async def test_how_a_command_ends(tools: Tools) -> None:
    failed = await tools("terminal", command="echo out; echo err >&2; exit 7")
    assert (failed.exit_code, failed.is_error) == (7, True)
    assert sorted(failed.text.splitlines()) == ["[exit code 7]", "err", "out"]
    assert "signal 9" in await tools.refusal("terminal", command="kill -9 $$")
    assert "syntax error" in await tools.refusal("terminal", command="if")
    assert await tools.text("terminal", command="true") == "[no output]"
    assert "background" in await tools.refusal("terminal", command="true", timeout=601)
    slow = await tools("terminal", command="echo begun; sleep 60", timeout=0.5)
    assert slow.is_error
    assert re.fullmatch(r"begun\n\[It reached its timeout .*]", slow.text)


async def test_a_command_has_a_terminal_when_asked(tools: Tools) -> None:
    script = "[ -t 0 ] && [ -t 1 ] && stty size || echo none"
    assert (await tools.text("terminal", command=script, pty=True)).strip() == "40 120"
    assert await tools.text("terminal", command=script) == "none"


async def test_the_plan_is_kept_with_the_session(tools: Tools) -> None:
    items = [{"id": "1", "content": "look", "status": "in_progress"}, {"id": "2", "content": "act"}]
    assert await tools.text("todo", todos=items) == "[>] 1: look\n[ ] 2: act"
    done = {"id": "1", "content": "look", "status": "completed"}
    assert await tools.text("todo", todos=[done], merge=True) == "[x] 1: look\n[ ] 2: act"
    assert await tools.text("todo") == "[x] 1: look\n[ ] 2: act"
    many = [{"id": f"m{n}", "content": "x"} for n in range(255)]
    assert "256" in await tools.refusal("todo", todos=many, merge=True)
    assert await tools.text("todo", todos=[]) == "The plan is empty."
