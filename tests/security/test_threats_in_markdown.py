"""The threat scan on ordinary Markdown: what is on every machine that runs the tests.

That are the descriptions of the installed packages, and what they and this repository have to read.
"""

from collections.abc import Iterator
from importlib.metadata import distributions
from pathlib import Path

from agent_service.security.threats import ThreatScanner

REPOSITORY = Path(__file__).parents[2]
FALSE_ALARMS = 0.01
LONGEST_BYTES = 6_000
"""Of a file that is read: many short ones tell more of a share than few long ones."""
IS_MARKDOWN = "Description-Content-Type: text/markdown"


def written() -> Iterator[str]:
    """The texts."""
    folders = (REPOSITORY / "docs", REPOSITORY / "agent_service/profiles/skills/bundled")
    files = [path for folder in folders for path in folder.rglob("*.md")]
    for path in (*REPOSITORY.glob("*.md"), *files):
        if path.stat().st_size <= LONGEST_BYTES:
            yield path.read_text(encoding="utf-8", errors="replace")
    for each in distributions():
        head, _, text = (each.read_text("METADATA") or "").partition("\n\n")
        if IS_MARKDOWN in head and len(text) <= LONGEST_BYTES:
            yield text


def test_ordinary_markdown_is_seldom_touched_and_never_dropped_whole() -> None:
    scanner, texts = ThreatScanner(), set(written())
    cleaned = {text: scanner.clean(text)[0] for text in texts}
    touched = [text for text in texts if cleaned[text] != text]
    assert len(texts) >= 80
    assert len(touched) / len(texts) <= FALSE_ALARMS, touched
    assert all(len(cleaned[text]) > len(text) / 2 for text in touched)
