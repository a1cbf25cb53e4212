"""The main text of web pages as Markdown."""

import base64
import codecs
import json
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from msgspec import Struct

from agent_service.security.fetch.urls import Fetched
from agent_service.security.scripts import ScriptFailed, answer_of

WORKER = Path(__file__).with_name("page_worker.py")
LIMIT_S = 30.0
_HTML = frozenset({"text/html", "application/xhtml+xml"})
_TEXTUAL = ("text/",)
_TEXTS = frozenset(
    {
        "",
        "application/json",
        "application/javascript",
        "application/ld+json",
        "application/rss+xml",
        "application/atom+xml",
        "application/xml",
        "application/yaml",
    }
)


class PagesUnreadable(Exception):
    """The pages could not be read; the message says why."""


class PageText(Struct, frozen=True):
    """What a page says."""

    title: str
    text: str


def is_installed() -> bool:
    """Whether what reads pages is installed."""
    return find_spec("trafilatura") is not None


def is_html(page: Fetched) -> bool:
    """Whether it has a main text to be found."""
    return page.content_type in _HTML or (
        page.content_type == "" and page.data.lstrip()[:1] == b"<"
    )


def is_text(page: Fetched) -> bool:
    """Whether it can be shown as it is."""
    return page.content_type.startswith(_TEXTUAL) or page.content_type in _TEXTS


async def read_pages(pages: Sequence[Fetched]) -> Sequence[PageText]:
    """The texts of HTML pages; PagesUnreadable when they cannot be had."""
    if not pages:
        return []
    asked = [
        {
            "url": page.url,
            "charset": _known(page.charset),
            "data": base64.b64encode(page.data).decode(),
        }
        for page in pages
    ]
    try:
        answer = await answer_of(WORKER, json.dumps(asked).encode(), LIMIT_S)
    except ScriptFailed as error:
        raise PagesUnreadable(str(error)) from error
    return [PageText(found["title"], found["text"]) for found in json.loads(answer)]


def _known(charset: str) -> str:
    try:
        return codecs.lookup(charset).name if charset else ""
    except LookupError:
        return ""
