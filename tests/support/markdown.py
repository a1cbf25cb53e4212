"""The documentation as tests read it: pages, and the links, headings and code in them."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]

_FENCE = re.compile(
    r"(?:^ *<!-- (?P<note>[^\n]*) -->\n+)?"
    r"^(?P<indent> *)```(?P<language>\w*)\n(?P<text>.*?)^(?P=indent)```$",
    re.M | re.S,
)
_HEADING = re.compile(r"^#{1,6} (.+)$", re.M)
_INLINE = re.compile(r"(?<!`)`([^`\n]+(?:\n[^`\n]+)?)`(?!`)")
_LINK = re.compile(r"\[[^\]\n]+(?:\n[^\]\n]+)?\]\(([^)\s]+)\)")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block of code."""

    where: str
    language: str
    text: str
    note: str
    """What a comment just before it says."""


@dataclass(frozen=True, slots=True)
class Page:
    """One Markdown file."""

    path: Path
    text: str

    @property
    def name(self) -> str:
        """Its path in the repository."""
        return str(self.path.relative_to(ROOT))

    @property
    def prose(self) -> str:
        """Its text without the blocks of code."""
        return _FENCE.sub("", self.text)

    @property
    def anchors(self) -> frozenset[str]:
        """What links to its headings may name."""
        return frozenset(map(_anchor, _HEADING.findall(self.prose)))

    @property
    def links(self) -> Sequence[str]:
        """Where its links lead; what looks like one in code is none."""
        return _LINK.findall(_INLINE.sub("code", self.prose))

    @property
    def inline_code(self) -> Sequence[str]:
        """What stands between backticks in its text."""
        return [" ".join(code.split()) for code in _INLINE.findall(self.prose)]

    def blocks(self, *languages: str) -> Iterator[Block]:
        """Its blocks of code in these languages."""
        for found in _FENCE.finditer(self.text):
            if found["language"] in languages:
                line = self.text.count("\n", 0, found.start("text"))
                where = f"{self.name}:{line}"
                text = re.sub(f"^{found['indent']}", "", found["text"], flags=re.M)
                yield Block(where, found["language"], text, found["note"] or "")


def page(path: Path) -> Page:
    """Read a page."""
    return Page(path, path.read_text(encoding="utf-8"))


def pages() -> Sequence[Page]:
    """The README and everything in docs."""
    return [page(path) for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))]


def _anchor(heading: str) -> str:
    """A heading as links name it: lower case, spaces as hyphens, without punctuation."""
    kept = re.sub(r"[^\w\- ]", "", heading.strip().lower())
    return kept.replace(" ", "-")
