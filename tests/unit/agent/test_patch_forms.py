"""What a patch says, in each of its forms."""

import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_service.tools.patching.forms import FileChange, Malformed, content, read
from agent_service.tools.patching.matcher import DoesNotFit, applied

# A line `-- a` that becomes `++ b` looks like the names of a file, in a diff without counts.
LINES = st.lists(st.sampled_from(["a", "b", "-- a", "+ b", "  c", "", "@@", "*** x"]), max_size=12)


def _one(patch: str) -> FileChange:
    (change,) = read(patch)
    return change


def test_an_envelope_adds_changes_moves_and_deletes() -> None:
    added, changed, moved, removed = read(
        "Here is the patch:\n*** Begin Patch\n"
        "*** Add File: new.py\n+one\n+\n+two\n\n"
        "*** Update File: a b.py\n@@ class A:\n@@ def f():\n-    old\n+    new\n\n     kept\n"
        "@@\n+last\n*** End of File\n"
        "*** Update File: from.py\n*** Move to: to.py\n"
        "*** Delete File: gone.py\n*** End Patch\nThat is all."
    )
    assert added.is_new
    assert content(added.hunks) == "one\n\ntwo\n"
    assert changed.path == "a b.py"
    assert [hunk.anchors for hunk in changed.hunks] == [("class A:", "def f():"), ()]
    assert changed.hunks[0].old == ["    old", "", "    kept"]
    assert changed.hunks[0].new == ["    new", "", "    kept"]
    assert changed.hunks[1].at_end
    assert moved == FileChange("from.py", target="to.py")
    assert removed == FileChange("gone.py", is_gone=True)


def test_a_diff_adds_changes_moves_and_deletes() -> None:
    changed, added, moved, removed = read(
        "--- a/x.py\t2026-01-01\n+++ b/x.py\n@@ -3,2 +3,2 @@ def f():\n-old\n+new\n kept\n"
        "diff --git a/n b/n\nnew file mode 100644\nindex 0..1\n"
        "--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+n\n\\ No newline at end of file\n"
        "diff --git a/ä b/b\nsimilarity index 100%\nrename from ä\nrename to b\n"
        "diff --git a/g b/g\ndeleted file mode 100644\n--- a/g\n+++ /dev/null\n@@ -1 +0,0 @@\n-g\n"
    )
    assert (changed.path, changed.hunks[0].line, changed.hunks[0].anchors) == ("x.py", 3, ())
    assert added.is_new
    assert content(added.hunks) == "n"
    assert (moved.path, moved.target, moved.hunks) == ("ä", "b", ())
    assert removed.is_gone
    assert removed.path == "g"
    assert applied("g\n", removed.hunks) == ""


def test_a_diff_without_numbers_or_of_lines_that_look_like_headers() -> None:
    change = _one("```diff\n--- a.lua\n+++ a.lua\n@@ function f()\n--- old\n+-- new\n```")
    assert change.path == "a.lua"
    assert change.hunks[0].anchors == ("function f()",)
    assert change.hunks[0].lines == (("-", "-- old"), ("+", "-- new"))


@pytest.mark.parametrize(
    ("patch", "why"),
    [
        ("just text", "neither form"),
        ("*** Begin Patch\n*** Update File: a\nno sign\n*** End Patch", "line 3"),
        ("*** Begin Patch\n*** Update File: a\n*** End Patch", "nothing in a"),
        ("*** Begin Patch\n*** Add File: a\n-x\n*** End Patch", "the file is new"),
        ("*** Begin Patch\n*** Delete File: a\n-x\n*** End Patch", "is deleted"),
        ("*** Begin Patch\n*** Replace File: a\n*** End Patch\n*** Add File: b", "no header"),
        ("*** Add File: a\n*** Move to: b", "moves no file"),
        ("*** Begin Patch\n*** Move File: a\n", "no header"),
        ("--- a/a\n+++ b/a\n@@ -1 +1 @@\n-a\n+b\nsurprise", "line 6"),
        ("diff --git a/a b/a\nBinary files a/a and b/a differ", "binary"),
        ("diff --git a/a b/b\ncopy from a\ncopy to b", "copies"),
        ("diff --git a/a b/a\nold mode 100644\nnew mode 100755", "nothing in a"),
    ],
)
def test_what_cannot_be_read_is_named(patch: str, why: str) -> None:
    with pytest.raises(Malformed, match=why):
        read(patch)


def _envelope(*hunk: str) -> str:
    return "\n".join(["*** Begin Patch", "*** Update File: f", *hunk, "*** End Patch"])


def _diff(*hunk: str) -> str:
    return "\n".join(["--- a/f", "+++ b/f", *hunk])


@pytest.mark.parametrize(
    ("text", "patch", "after"),
    [
        ("a\nb\nc\n", _envelope("@@", " a", "-b", "+x"), "a\nx\nc\n"),
        ("a  \nb\nc", _envelope("@@", " a", "-b", "+x"), "a  \nx\nc"),
        ("if a:\n\tb\n\tc\n", _envelope("-b", "+x", " c"), "if a:\n\tx\n\tc\n"),
        ("a\r\nb\r\n", _envelope("@@", "-b", "+x", "+y"), "a\r\nx\r\ny\r\n"),
        ("f\n  x\ng\n  x\n", _envelope("@@ g", "-  x", "+  y"), "f\n  x\ng\n  y\n"),
        ("f\n  x\ng\n  x\n", _envelope("@@ g", " g", "-  x", "+  y"), "f\n  x\ng\n  y\n"),
        ("def f(a):\n  x\n", _envelope("@@ def f", "+  n"), "def f(a):\n  n\n  x\n"),
        ("x\nb\nx\n", _envelope("@@", "-x", "+y", "*** End of File"), "x\nb\ny\n"),
        ("a\nb\nc\n", _envelope("@@", "-c", "+C", "@@", "-a", "+A"), "A\nb\nC\n"),
        ("a\n", _envelope("@@", "+b"), "a\nb\n"),
        ("", _envelope("@@", "+b"), "b\n"),
        ("a\nx\na\nx\n", _diff("@@ -3,2 +3,2 @@", " a", "-x", "+y"), "a\nx\na\ny\n"),
        ("n\nn\na\nx\na\nx\n",
         _diff("@@ -1 +1,2 @@", "+n", " n", "@@ -2,2 +3,2 @@", " a", "-x", "+y"),
         "n\nn\nn\na\ny\na\nx\n"),
        ("a\nb\n", _diff("@@ -9,9 +9,9 @@", "-b", "+c", ""), "a\nc\n"),
        ("a\nb\n", _diff("@@ -1,0 +2 @@", "+n"), "a\nn\nb\n"),
        ("a", _diff("@@ -1 +1 @@", "-a", "\\ No newline", "+b"), "b\n"),
        ("a\n", _diff("@@ -1 +1 @@", "-a", "+b", "\\ No newline"), "b"),
    ],
)  # fmt: skip
def test_hunks_go_where_their_lines_stand(text: str, patch: str, after: str) -> None:
    assert applied(text, _one(patch).hunks) == after


@pytest.mark.parametrize(
    ("text", "patch", "why"),
    [
        ("a\nb\n", _envelope("@@", "-c", "+d"), "hunk 1 of 1 .*does not have these lines:\nc"),
        ("a\nb\nc\n", _envelope("@@", " a", " b", "-x"), "first 2 of its 3 .*line 3 is\nc\n.*\nx"),
        ("a\na\n", _envelope("@@", "-a", "+b"), "fits 2 places"),
        ("a\n", _envelope("@@ class B", "-a"), "no line `class B`"),
        ("a\n", _envelope("-a", "+b", "@@", "-a", "+c"), "hunk 2 of 2"),
        ("a\nb\n", _envelope("-  a", "-  b", "+c"), "indentation"),
    ],
)
def test_what_does_not_fit_is_named(text: str, patch: str, why: str) -> None:
    with pytest.raises(DoesNotFit, match=f"(?s){why}"):
        applied(text, _one(patch).hunks)


@settings(max_examples=60, deadline=None)
@given(before=LINES, after=LINES, context=st.integers(0, 3))
def test_what_git_says_comes_out_as_git_meant_it(
    tmp_path_factory: pytest.TempPathFactory, before: list[str], after: list[str], context: int
) -> None:
    folder = tmp_path_factory.mktemp("git")
    old, new = "\n".join(before), "\n".join(after)
    patch = _git_diff(folder, old, new, context)
    if patch:
        assert applied(old, _one(patch).hunks) == new


def _git_diff(folder: Path, old: str, new: str, context: int) -> str:
    (folder / "old").write_text(old)
    (folder / "new").write_text(new)
    command = ["git", "diff", "--no-index", f"-U{context}", "old", "new"]
    found = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return found.stdout
