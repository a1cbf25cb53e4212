"""Extracts the main text of web pages in a separate process, which may hang or crash.

Runs as a file: pages come as JSON on standard input, texts leave on standard output. It imports
only the standard library and trafilatura.
"""

import base64
import json
import sys
from typing import Any


def main() -> None:
    """Read the pages and print the text of each."""
    pages: list[dict[str, str]] = json.load(sys.stdin)
    json.dump([_text(page) for page in pages], sys.stdout)


def _text(page: dict[str, str]) -> dict[str, str]:
    import trafilatura

    data = base64.b64decode(page["data"])
    markup: Any = data.decode(page["charset"], errors="replace") if page["charset"] else data
    text: Any = trafilatura.extract(
        markup,
        url=page["url"],
        output_format="markdown",
        include_comments=False,
        include_formatting=True,
        include_links=True,
        include_tables=True,
    )
    known: Any = trafilatura.extract_metadata(markup, default_url=page["url"], extensive=False)
    title: str = (known.title if known is not None else "") or ""
    # The main text often starts with the title.
    shown = "" if text and text.startswith(f"# {title}") else title
    return {"title": shown, "text": text or trafilatura.html2txt(markup) or ""}


if __name__ == "__main__":
    main()
