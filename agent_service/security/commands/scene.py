"""What is known while a command's text is followed: variables, functions, files, findings."""

from msgspec import Struct, field
from tree_sitter import Node

from agent_service.security.commands.families import FAMILIES, Reach
from agent_service.security.commands.marks import is_known
from agent_service.security.commands.paths import resolve

MOST_PROGRAMS = 1000
"""Programs of one command that are looked at; more make it unparseable."""
MOST_WORK = 300_000
"""What following one command may take, counted in characters that are looked at."""
DEEPEST = 14
"""How deep texts may run texts."""
MOST_STARTED = 24
"""How deep programs may start programs."""


class TooMuch(Exception):
    """Following the command would take more than it may."""


class Finding(Struct, frozen=True):
    """A family that a program belongs to, and whether that matters outside of a sandbox."""

    family: str
    reach: Reach | None = None

    @property
    def leaves(self) -> bool:
        """Whether it matters outside of a disposable sandbox."""
        return (self.reach or FAMILIES[self.family].reach) is Reach.OUTSIDE


class Pipes(Struct, frozen=True):
    """What surrounds a program in its pipeline."""

    stdin: str = ""
    is_fed: bool = False
    feeds: frozenset[str] = frozenset()
    fed: frozenset[str] = frozenset()


NO_PIPES = Pipes()


class Scene(Struct):
    """The state of one command's text while it is followed."""

    functions: dict[str, Node] = field(default_factory=dict[str, Node])
    aliases: dict[str, str] = field(default_factory=dict[str, str])
    files: dict[str, str] = field(default_factory=dict[str, str])
    """What the text has written, or would read through a file descriptor, by path."""
    sinks: dict[str, str] = field(default_factory=dict[str, str])
    """Shell text that reads what is written to a path."""
    decoded: set[str] = field(default_factory=set[str])
    """Texts that programs of the command have decoded."""
    own: tuple[str, ...] = ()
    """The agent's own home, as paths name it."""
    cwd: str = ""
    findings: dict[Finding, None] = field(default_factory=dict[Finding, None])
    addresses: dict[str, None] = field(default_factory=dict[str, None])
    """The addresses elsewhere that are asked."""
    programs: list[tuple[str, ...]] = field(default_factory=list[tuple[str, ...]])
    calling: list[str] = field(default_factory=list[str])
    depth: int = 0
    started: int = 0
    """How deep programs are that were started by others."""
    is_broken: bool = False
    has_socket: bool = False
    """Whether the text has opened a connection as a file."""
    has_moved_home: bool = False
    """Whether programs are told another home than the user's."""
    is_certain: bool = True
    work: int = 0
    """What following the text has taken so far."""

    def spend(self, work: int) -> None:
        """Count work, before it is done; TooMuch where that is more than there may be."""
        self.work += work
        if self.work > MOST_WORK:
            raise TooMuch

    def find(self, family: str, reach: Reach | None = None) -> None:
        """Note a family."""
        self.findings[Finding(family, reach)] = None

    def note(self, *words: str) -> None:
        """Note what is run; TooMuch where there are too many of it."""
        if len(self.programs) >= MOST_PROGRAMS:
            raise TooMuch
        self.programs.append(words)
        if self.is_certain and not all(map(is_known, words)):
            self.is_certain = False

    def write(self, path: str, text: str, *, append: bool = False) -> None:
        """Keep what the text writes into a file."""
        key = resolve(path, self.cwd)
        self.files[key] = (self.files.get(key, "") if append else "") + text

    def read(self, path: str) -> str:
        """What the text wrote into a file before; empty where it did not."""
        return self.files.get(resolve(path, self.cwd), "")
