"""The `search_files` tool: texts by ripgrep or grep, names by find."""

from typing import Literal

from pydantic import Field

from agent_service.sandbox import Command
from agent_service.tools.base import Effect, ToolArguments, ToolContext, ToolFailed, ToolResult
from agent_service.tools.output import OutputWindow

TIMEOUT_S = 60
MAX_RESULTS = 1000

# $1 pattern, $2 path, $3 glob, $4 first and $5 last line to show, then options for the search.
_CUT = '| sed -n "${4},${5}p;${5}q"; exit "${PIPESTATUS[0]}"'
_CONTENT = f"""\
pattern=$1 path=$2 glob=$3
if command -v rg >/dev/null; then
  rg --no-heading --with-filename --line-number --color=never --sort=path \\
    ${{glob:+--glob "$glob"}} "${{@:6}}" -e "$pattern" -- "$path" {_CUT}
else
  grep -rIHnE ${{glob:+--include="$glob"}} "${{@:6}}" -e "$pattern" -- "$path" {_CUT}
fi
"""
_FILES = f"""\
[ -e "$2" ] || {{ echo "There is no $2."; exit 2; }}
case $2 in [-\\(\\),!]*) path=./$2;; *) path=$2;; esac
find "$path" -name .git -prune -o -type f -name "$1" -print0 | LC_ALL=C sort -z \\
  | tr '\\n\\0' '?\\n' {_CUT}
"""
_MODES = {"content": (), "files_only": ("-l",), "count": ("-c",)}

_NOTHING = 1
_ENOUGH = 141
"""The search was ended by a closed pipe because all that was asked for is there."""


class SearchFilesArguments(ToolArguments):
    """Searches the sandbox's files: lines that match a pattern, or files by name."""

    pattern: str = Field(
        min_length=1,
        description="For content a regular expression, for files a glob such as `*.py`.",
    )
    target: Literal["content", "files"] = Field(default="content", description="What to search.")
    path: str = Field(default=".", description="The folder or file to search in.")
    file_glob: str = Field(default="", description="For content: only files whose names match.")
    limit: int = Field(default=50, ge=1, le=MAX_RESULTS, description="Lines to return at most.")
    offset: int = Field(default=0, ge=0, description="Lines to leave out at the start.")
    output_mode: Literal["content", "files_only", "count"] = Field(
        default="content",
        description=(
            "For content: the lines, only the files' names, or the number of matching lines in "
            "each."
        ),
    )
    context: int = Field(
        default=0, ge=0, le=20, description="For content: lines to show around each match."
    )


class SearchFiles:
    """Searches files."""

    name = "search_files"
    toolset = "file"
    arguments = SearchFilesArguments

    def effect(self, arguments: SearchFilesArguments) -> Effect:
        """A search that runs is found again by its key."""
        return Effect.KEYED

    def writes(self, arguments: SearchFilesArguments) -> frozenset[str]:
        """Nothing."""
        return frozenset()

    async def run(self, arguments: SearchFilesArguments, context: ToolContext) -> ToolResult:
        """Search."""
        output = OutputWindow()
        command = Command(key=context.key, argv=_argv(arguments), timeout_s=TIMEOUT_S)
        status = await context.commands.run(command, lambda _, data: output.add(data))
        text = output.text().rstrip("\n")
        code = None if status.exit is None else status.exit.code
        if code not in (0, _NOTHING, _ENOUGH):
            raise ToolFailed(text or "The search did not finish; search in a smaller folder.")
        return ToolResult(text or "[nothing found]")


def _argv(arguments: SearchFilesArguments) -> tuple[str, ...]:
    first, last = arguments.offset + 1, arguments.offset + arguments.limit
    positions = (arguments.pattern, arguments.path, arguments.file_glob, str(first), str(last))
    if arguments.target == "files":
        return ("bash", "-c", _FILES, "bash", *positions)
    around = (f"-C{arguments.context}",) if arguments.context else ()
    return ("bash", "-c", _CONTENT, "bash", *positions, *_MODES[arguments.output_mode], *around)
