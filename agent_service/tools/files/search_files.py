"""The `search_files` tool: searches text with ripgrep or grep, and file names with find."""

import posixpath
import re
from collections.abc import Sequence
from typing import Literal

from msgspec import Struct
from pydantic import Field

from agent_service.records.sandbox import Command
from agent_service.tools.base import (
    Effect,
    ToolArguments,
    ToolContext,
    ToolFailed,
    ToolResult,
    UsualTool,
)
from agent_service.tools.guards.commands import DISPOSABLE, CommandPolicy
from agent_service.tools.guards.files import guarded_family, real_path, real_places
from agent_service.tools.output import OutputWindow
from agent_service.tools.texts import WORKSPACE

TIMEOUT_S = 60
MAX_RESULTS = 1000
MAX_IGNORED = 5
"""Ignored files that are named."""

# $1 pattern, $2 path, $3 glob, $4 first and $5 last line to show, then options for the search.
_BEGIN = """\
pattern=$1 path=$2 glob=$3 first=$4 last=$5; shift 5
show() { sed -n "$first,${last}p;${last}q"; }
"""
# rg leaves out ignored files. Those that match are named on lines that begin with NUL.
_CONTENT = (
    _BEGIN
    + r"""
found() {
  $within rg --hidden ${glob:+--glob "$glob"} --glob '!.git' "$@" -e "$pattern" -- "$path"
}
files() {
  within='timeout 10'
  { found -l --null "$@" || [ $? != 124 ] || printf 'perhaps others\0'; } 2>/dev/null | sort -z
}
if command -v rg >/dev/null; then
  found --no-heading --with-filename --line-number --color=never --sort=path "$@" | show
  status=${PIPESTATUS[0]}
  LC_ALL=C comm -z -13 <(files) <(files --no-ignore) | tr '\n\0' '?\n' | sed 's/^/\x0/'
else
  grep -rIHnE --exclude-dir=.git ${glob:+--include="$glob"} "$@" -e "$pattern" -- "$path" | show
  status=${PIPESTATUS[0]}
fi
exit $status
"""
)
_FILES = (
    _BEGIN
    + r"""
[ -e "$path" ] || { echo "There is no $path."; exit 2; }
case $path in [-\(\),!]*) path=./$path;; esac
find -H "$path" -name .git -prune -o -type f -name "$pattern" -print0 | LC_ALL=C sort -z \
  | tr '\n\0' '?\n' | show
exit ${PIPESTATUS[0]}
"""
)
_MODES = {"content": (), "files_only": ("-l",), "count": ("-c",)}

_NOT_OF_FILES = re.compile(r"--$|\[… [\d,]+ bytes left out …\]$|(?:grep|rg): |$")
"""Lines that are not from a file."""
_NOTHING = 1
_ENOUGH = 141
"""Exit status of a search that was cut off by a closed pipe once it had enough."""


class SearchFilesArguments(ToolArguments):
    """Searches the files in the sandbox: lines that match a pattern, or files by name."""

    pattern: str = Field(
        min_length=1,
        description="For content, a regular expression; for files, a glob such as `*.py`.",
    )
    target: Literal["content", "files"] = Field(default="content", description="What to search.")
    path: str = Field(default=".", description="The folder or file to search in.")
    file_glob: str = Field(
        default="", description="For content: search only files whose names match this glob."
    )
    limit: int = Field(
        default=50, ge=1, le=MAX_RESULTS, description="Maximum number of lines to return."
    )
    offset: int = Field(default=0, ge=0, description="Number of lines to skip.")
    output_mode: Literal["content", "files_only", "count"] = Field(
        default="content",
        description=(
            "For content: the matching lines, only the names of files, or the number of matching "
            "lines in each file."
        ),
    )
    context: int = Field(
        default=0, ge=0, le=20, description="For content: lines to show around each match."
    )


class SearchFiles(UsualTool[SearchFilesArguments]):
    """Searches files."""

    name = "search_files"
    toolset = "file"
    arguments = SearchFilesArguments
    usual_effect = Effect.KEYED
    """A running search is found again by its key."""

    def __init__(self, policy: CommandPolicy) -> None:
        """`policy` decides which files of a machine are left out."""
        self._policy = policy

    async def run(self, arguments: SearchFilesArguments, context: ToolContext) -> ToolResult:
        output = OutputWindow()
        below = await self._below(arguments, context)
        named = ("--null",) if below and _says_lines(arguments) else ()
        command = Command(key=context.key, argv=_argv(arguments, named), timeout_s=TIMEOUT_S)
        status = await context.commands.run(command, lambda _, data: output.add(data))
        text, ignored = _sorted(output.text())
        code = None if status.exit is None else status.exit.code
        if code not in (0, _NOTHING, _ENOUGH):
            raise ToolFailed(text or "The search did not finish. Search a smaller folder.")
        text, more = _cut(text, arguments)
        if below:
            text = _without_guarded(text, arguments, below)
            ignored = [path for path in ignored if not below.is_guarded(path)]
        notes = (text or "[nothing found]", more, _left_out(ignored))
        return ToolResult("\n".join(filter(None, notes)))

    async def _below(
        self, arguments: SearchFilesArguments, context: ToolContext
    ) -> "_Below | None":
        """The folder to filter; None if everything in it may be shown."""
        if not self._policy.asks or (await context.sandbox()).backend in DISPOSABLE:
            return None
        root = await real_path(context.files, arguments.path)
        own = await real_places(self._policy.own, context.files)
        # A guarded root was approved as a whole before the search.
        return None if guarded_family(root, own) else _Below(arguments.path, root, own)


class _Below(Struct, frozen=True):
    given: str
    """The path as it appears in the output."""
    root: str
    own: Sequence[str]

    def is_guarded(self, path: str) -> bool:
        ends = (posixpath.join(WORKSPACE, each) for each in (path, self.given))
        whole, above = map(posixpath.normpath, ends)
        real = f"{self.root.rstrip('/')}/{whole.removeprefix(above).lstrip('/')}"
        return bool(guarded_family(real, self.own))


def _sorted(text: str) -> tuple[str, list[str]]:
    lines = text.rstrip("\n").split("\n")
    ignored = [line[1:] for line in lines if line.startswith("\0")]
    return "\n".join(line for line in lines if not line.startswith("\0")), ignored


def _cut(text: str, arguments: SearchFilesArguments) -> tuple[str, str]:
    lines = text.split("\n")
    if len(lines) <= arguments.limit:
        return text, ""
    more = f"[more; continue with offset {arguments.offset + arguments.limit}]"
    return "\n".join(lines[: arguments.limit]), more


def _left_out(ignored: Sequence[str]) -> str:
    if not ignored:
        return ""
    more = len(ignored) - MAX_IGNORED
    named = ", ".join([*ignored[:MAX_IGNORED], *([f"{more} more"] if more > 0 else [])])
    return (
        f"[Not shown are matches in files that .gitignore or a similar file excludes: {named}. "
        "Search such a file by its path.]"
    )


def _without_guarded(text: str, arguments: SearchFilesArguments, below: _Below) -> str:
    kept: list[str] = []
    left_out = 0
    for line in text.split("\n"):
        path, end, rest = line.partition("\0")
        if _says_lines(arguments) and not end:
            # A line without a file name may continue a line that was cut.
            is_shown = _NOT_OF_FILES.match(line) is not None
        else:
            is_shown = not below.is_guarded(path)
        if is_shown:
            kept.append(f"{path}{_sign_of(rest)}{rest}" if end else line)
        else:
            left_out += 1
    if left_out:
        kept.append(
            f"[{left_out} lines are left out. They are from files such as keys and passwords, "
            "which need a person's approval. read_file asks for it.]"
        )
    return "\n".join(kept)


def _sign_of(rest: str) -> str:
    """The separator before a line number: a dash for context lines, else a colon."""
    return "-" if rest.lstrip("0123456789").startswith("-") else ":"


def _says_lines(arguments: SearchFilesArguments) -> bool:
    return arguments.target == "content" and arguments.output_mode != "files_only"


def _argv(arguments: SearchFilesArguments, named: tuple[str, ...]) -> tuple[str, ...]:
    first, last = arguments.offset + 1, arguments.offset + arguments.limit + 1
    positions = (arguments.pattern, arguments.path, arguments.file_glob, str(first), str(last))
    if arguments.target == "files":
        return ("bash", "-c", _FILES, "bash", *positions)
    around = (f"-C{arguments.context}",) if arguments.context else ()
    return (
        "bash",
        "-c",
        _CONTENT,
        "bash",
        *positions,
        *_MODES[arguments.output_mode],
        *around,
        *named,
    )
