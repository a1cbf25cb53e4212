"""One program call, and how its options are read."""

import re
from collections.abc import Iterable, Sequence

from msgspec import Struct

from agent_service.security.commands.marks import without_marks


class Invocation(Struct, frozen=True):
    """A program with its arguments, expanded as far as known."""

    name: str
    args: tuple[str, ...]
    stdin: str = ""
    """Its standard input, as far as known."""
    cwd: str = ""
    """The folder that the text changed to; empty if none."""
    feeds: frozenset[str] = frozenset()
    """Names of earlier programs in its pipeline."""
    fed: frozenset[str] = frozenset()
    """Names of later programs in its pipeline."""
    settings: tuple[tuple[str, str], ...] = ()
    is_fed: bool = False
    """Whether it has piped or redirected input."""
    guesses: frozenset[str] = frozenset()
    """Values that stand for unknown variables."""

    @property
    def letters(self) -> frozenset[str]:
        return frozenset(
            letter
            for arg in self.args[: self._ended()]
            if len(arg) > 1 and arg[0] == "-" and arg[1] != "-"
            for letter in without_marks(arg[1:])
        )

    def short(self, letters: str) -> bool:
        return not self.letters.isdisjoint(letters)

    def long(self, *names: str) -> bool:
        """Whether one of these long options is given, in full or cut to four letters or more."""
        for arg in self.args[: self._ended()]:
            if arg.startswith("--"):
                given = without_marks(arg[2:]).split("=", 1)[0]
                if given and any(
                    name == given or (len(given) >= 4 and name.startswith(given)) for name in names
                ):
                    return True
        return False

    def has(self, *words: str) -> bool:
        return any(word in self.args for word in words)

    @property
    def operands(self) -> Sequence[str]:
        end = self._ended()
        found = [arg for arg in self.args[:end] if not arg.startswith("-") or arg == "-"]
        return [*found, *self.args[end + 1 :]]

    def operand(self, number: int) -> str:
        """The operand at this index; empty if there are fewer."""
        operands = self.operands
        return operands[number] if number < len(operands) else ""

    def value_of(self, *options: str) -> list[str]:
        """The values of options, given as `-x value`, `-xvalue`, `--long value`, `--long=value`."""
        found: list[str] = []
        beginnings = {option[0] for option in options}
        for number, arg in enumerate(self.args):
            for option in options if arg[:1] in beginnings else ():
                if arg == option and number + 1 < len(self.args):
                    found.append(self.args[number + 1])
                elif option.startswith("--") and arg.startswith(option + "="):
                    found.append(arg[len(option) + 1 :])
                elif len(option) == 2 and arg.startswith(option) and len(arg) > 2:
                    found.append(arg[2:])
                elif _ends_cluster(arg, option) and number + 1 < len(self.args):
                    found.append(self.args[number + 1])
        return found

    def without_options(self, valued: Iterable[str]) -> list[str]:
        """The operands, skipping the values of some options."""
        takes = frozenset(valued)
        found: list[str] = []
        skip = False
        for arg in self.args:
            if skip:
                skip = False
            elif arg.startswith("-") and len(arg) > 1:
                skip = arg in takes
            else:
                found.append(arg)
        return found

    @property
    def text(self) -> str:
        return " ".join(self.args)

    def _ended(self) -> int:
        return self.args.index("--") if "--" in self.args else len(self.args)


def _ends_cluster(arg: str, option: str) -> bool:
    return (
        len(option) == 2
        and 3 <= len(arg) <= 6
        and arg[0] == "-"
        and (arg[-1] == option[1] and arg[1:].isalpha())
    )


def listed(text: str) -> frozenset[str]:
    """The names in a text, separated by spaces."""
    return frozenset(text.split())


def program_name(word: str) -> str:
    """A program's name without folder and suffix."""
    name = without_marks(word).replace("\\", "/").rstrip("/").rpartition("/")[2]
    return re.sub(r"\.(?:exe|cmd|bat)$", "", name, flags=re.IGNORECASE)
