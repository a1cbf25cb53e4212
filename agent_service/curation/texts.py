"""How a skill's text becomes part of another's: word for word, under a heading with its name."""

import re
from collections.abc import Iterator, Mapping

_HEADING = re.compile(r"#{1,5} ")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
POINTERS = "## More on this"
"""What the list of files stands under that were skills of their own."""


def section(name: str, description: str, body: str) -> str:
    """A skill's text as a section of another's."""
    label = f"## {name}\n\nTaken over from the skill {name}: {description}"
    return f"{label}\n\n{_deeper(body.strip())}\n"


def reference(name: str, description: str, body: str) -> str:
    """A skill's text as a file of another's."""
    return f"# {name}\n\nTaken over from the skill {name}: {description}\n\n{body.strip()}\n"


def with_section(body: str, added: str) -> str:
    """A text with a section after all others."""
    return f"{body.rstrip()}\n\n{added}"


def with_pointer(body: str, path: str, description: str) -> str:
    """A text that names one more of its files, in a list at its end."""
    line = f"- `{path}`: {description}\n"
    head, found, tail = body.rpartition(f"\n{POINTERS}\n")
    is_last = found and all(each.startswith("- `") for each in tail.split("\n") if each.strip())
    if is_last:
        return f"{head}{found}\n{tail.strip()}\n{line}"
    return with_section(body, f"{POINTERS}\n\n{line}")


def introduction(name: str, description: str) -> str:
    """What a new skill says before its first section."""
    return f"# {name.replace('-', ' ').capitalize()}\n\n{description}\n"


def renamed(text: str, paths: Mapping[str, str]) -> str:
    """A text in which files are called what they are called now."""
    if not paths:
        return text
    names = "|".join(re.escape(path) for path in sorted(paths, key=len, reverse=True))
    return re.sub(rf"(?<![\w/-])(?:\./)?({names})(?![\w-])", lambda at: paths[at[1]], text)


def _deeper(body: str) -> str:
    """A text with its headings two levels down, as far as there are levels."""
    return "\n".join(_lines_deeper(body))


def _lines_deeper(body: str) -> Iterator[str]:
    fence = ""
    for line in body.split("\n"):
        found = _FENCE.match(line)
        if fence:
            fence = "" if found and found[1].startswith(fence) else fence
        elif found:
            fence = found[1]
        elif heading := _HEADING.match(line):
            level = min(6, len(heading[0]) - 1 + 2)
            yield "#" * level + line[len(heading[0]) - 1 :]
            continue
        yield line
