"""The state while a command is followed: variables, functions, files and findings."""

from msgspec import Struct, field
from tree_sitter import Node

from agent_service.security.commands.families import FAMILIES, Reach
from agent_service.security.commands.marks import is_known
from agent_service.security.commands.paths import resolve

MOST_PROGRAMS = 1000
"""Programs per command; more make it unparseable."""
MOST_WORK = 300_000
"""Work per command, in characters examined."""
DEEPEST = 14
"""Nesting of texts that run texts."""
MOST_STARTED = 24
"""Nesting of programs that start programs."""


class TooMuch(Exception):
    """Following the command would exceed a limit."""


class Finding(Struct, frozen=True):
    """A family found, and whether it matters outside a sandbox."""

    family: str
    reach: Reach | None = None

    @property
    def leaves(self) -> bool:
        """Whether it matters outside a disposable sandbox."""
        return (self.reach or FAMILIES[self.family].reach) is Reach.OUTSIDE


class Pipes(Struct, frozen=True):
    """What surrounds a program in its pipeline."""

    stdin: str = ""
    is_fed: bool = False
    feeds: frozenset[str] = frozenset()
    fed: frozenset[str] = frozenset()


NO_PIPES = Pipes()


class Scene(Struct):
    """The state while one command's text is followed."""

    functions: dict[str, Node] = field(default_factory=dict[str, Node])
    aliases: dict[str, str] = field(default_factory=dict[str, str])
    files: dict[str, str] = field(default_factory=dict[str, str])
    """Content that the text has written or a file descriptor provides, by path."""
    sinks: dict[str, str] = field(default_factory=dict[str, str])
    """Shell text that reads what is written to a path."""
    decoded: set[str] = field(default_factory=set[str])
    """Texts that programs of the command decoded."""
    own: tuple[str, ...] = ()
    """The agent's home, as paths name it."""
    cwd: str = ""
    findings: dict[Finding, None] = field(default_factory=dict[Finding, None])
    addresses: dict[str, None] = field(default_factory=dict[str, None])
    programs: list[tuple[str, ...]] = field(default_factory=list[tuple[str, ...]])
    calling: list[str] = field(default_factory=list[str])
    depth: int = 0
    started: int = 0
    """How deeply programs have started others."""
    is_broken: bool = False
    has_socket: bool = False
    """Whether the text opened a connection as a file."""
    is_certain: bool = True
    work: int = 0

    def spend(self, work: int) -> None:
        """Count work before it is done; TooMuch above the limit."""
        self.work += work
        if self.work > MOST_WORK:
            raise TooMuch

    def find(self, family: str, reach: Reach | None = None) -> None:
        self.findings[Finding(family, reach)] = None

    def note(self, *words: str) -> None:
        """Note a program that is run; TooMuch if there are too many."""
        if len(self.programs) >= MOST_PROGRAMS:
            raise TooMuch
        self.programs.append(words)
        if self.is_certain and not all(map(is_known, words)):
            self.is_certain = False

    def write(self, path: str, text: str, *, append: bool = False) -> None:
        key = resolve(path, self.cwd)
        self.files[key] = (self.files.get(key, "") if append else "") + text

    def read(self, path: str) -> str:
        return self.files.get(resolve(path, self.cwd), "")
