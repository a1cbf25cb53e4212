"""The browser tools."""

import asyncio
import base64
import re
import secrets
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import Field

from agent_service.records.requests import SUBAGENT
from agent_service.tools.base import (
    A,
    Caller,
    Effect,
    Picture,
    Tool,
    ToolArguments,
    ToolContext,
    ToolResult,
    UsualTool,
    Wrapper,
)
from agent_service.tools.browser.browsers import BrowserAnswer, Browsers
from agent_service.tools.guards.approval import check_allowed
from agent_service.tools.guards.taint import must_ask

TOOLSET = "browser"
SETTINGS = ("browser.template", "browser.cdp_url")
FOLDER = "downloads"
"""The folder of the workspace for what pages download."""
MAX_FILE_BYTES = 50_000_000

_REF = "The element, as the last snapshot names it, such as e12 or f1e3."
_OPTIONAL_REF = f"{_REF} Default is the page."


class NavigateArguments(ToolArguments):
    """Opens an address in this session's browser, and shows the page as a tree of its elements.

    Elements have references such as [ref=e12], which other browser tools take. They change when the
    page does. Only public http and https addresses can be opened. Use web_extract if the text of a
    page is enough.
    """

    url: str = Field(min_length=1, description="The address.")


class SnapshotArguments(ToolArguments):
    """Shows the page as a tree of its elements with references, frames included.

    Take one after something has changed on the page.
    """

    full: bool = Field(default=False, description="Show up to 90,000 characters, not 20,000.")


class ClickArguments(ToolArguments):
    """Clicks an element of the page.

    Dialogs that the page opens are answered at once: alerts are accepted, others dismissed.
    """

    ref: str = Field(min_length=1, description=_REF)
    double: bool = Field(default=False, description="Double-click.")
    accept_dialog: bool = Field(default=False, description="Accept a dialog that asks.")
    dialog_text: str = Field(default="", description="What to enter if a dialog asks for text.")


class TypeArguments(ToolArguments):
    """Replaces the text of a field of the page."""

    ref: str = Field(min_length=1, description=_REF)
    text: str = Field(max_length=100_000, description="The text; empty clears the field.")
    submit: bool = Field(default=False, description="Press Enter afterwards.")


class PressArguments(ToolArguments):
    """Presses a key or a combination in the page."""

    key: str = Field(min_length=1, description="Such as Enter, Escape, ArrowDown, a, Control+a.")


class SelectArguments(ToolArguments):
    """Selects options of a list of the page."""

    ref: str = Field(min_length=1, description=_REF)
    values: tuple[str, ...] = Field(description="The options' labels or values.")


class ScrollArguments(ToolArguments):
    """Scrolls the page, which may load more of it."""

    direction: Literal["down", "up"] = Field(default="down", description="By about one screen.")
    ref: str = Field(default="", description="Scroll to this element instead.")


class BackArguments(ToolArguments):
    """Goes back to the page before."""


class ScreenshotArguments(ToolArguments):
    """Looks at the page as a picture, which is also saved in the workspace.

    For text and elements a snapshot is better.
    """

    full_page: bool = Field(default=False, description="The whole page, not only what is in view.")
    ref: str = Field(default="", description=_OPTIONAL_REF)


class ConsoleArguments(ToolArguments):
    """Shows what the page has written to its console, and its errors."""

    clear: bool = Field(default=False, description="Forget it afterwards.")


class UploadArguments(ToolArguments):
    """Gives files of the sandbox to a file field of the page, or to the button that opens one."""

    ref: str = Field(min_length=1, description=_REF)
    paths: tuple[str, ...] = Field(min_length=1, max_length=10, description="The files.")


class DownloadArguments(ToolArguments):
    """Saves what pages have downloaded in `downloads` of the workspace."""

    ref: str = Field(default="", description="An element to click first.")


class TabsArguments(ToolArguments):
    """Lists the browser's tabs, opens one, closes one, or selects the one that is used."""

    action: Literal["list", "new", "select", "close"] = Field(default="list", description="What.")
    tab: int = Field(default=0, ge=0, description="The tab's number, to select or close it.")


class BrowserTool(UsualTool[Any]):
    """A tool that is one request to the browser."""

    toolset = TOOLSET
    usual_writes = frozenset({TOOLSET})

    def __init__(self, arguments: type[ToolArguments], browsers: Browsers) -> None:
        op = arguments.__name__.removesuffix("Arguments").lower()
        self.name = f"browser_{op}"
        self.arguments = arguments
        self.usual_effect = Effect.PURE if op in _PURE else Effect.UNSAFE
        self._op = op
        self._browsers = browsers

    async def run(self, arguments: ToolArguments, context: ToolContext) -> ToolResult:
        match arguments:
            case UploadArguments():
                answer = await self._upload(arguments, context)
            case _:
                answer = await self._browsers.ask(context, self._op, **arguments.model_dump())
        lines = [answer.text, *[await self._saved(each, context) for each in answer.files]]
        text = "\n".join(filter(None, lines)) or "Nothing was downloaded."
        data = await asyncio.to_thread(base64.b64decode, answer.picture)
        pictures = (Picture(data, "screenshot"),) if data else ()
        return ToolResult(text, answer.is_error, pictures=pictures)

    async def _upload(self, arguments: UploadArguments, context: ToolContext) -> BrowserAnswer:
        paths: list[str] = []
        for number, path in enumerate(arguments.paths):
            data = await context.files.read(path, MAX_FILE_BYTES)
            name = f"{number}/{PurePosixPath(path).name}"
            paths.append(await self._browsers.put(context, name, data))
        return await self._browsers.ask(context, self._op, ref=arguments.ref, paths=paths)

    async def _saved(self, file: Mapping[str, str], context: ToolContext) -> str:
        """Bring a download into the workspace, and return what the model is told of it."""
        data = await self._browsers.get(context, file["path"], MAX_FILE_BYTES)
        name = file_name(file["name"])
        path = f"{FOLDER}/{name}"
        if await context.files.stat(path) is not None:
            path = f"{FOLDER}/{secrets.token_hex(2)}-{name}"
        await context.files.write(path, data)
        return f"Saved {path} ({len(data):,} bytes)."


_PURE = frozenset({"navigate", "snapshot", "screenshot", "console", "scroll"})
_ENTERS = frozenset({"browser_type", "browser_press", "browser_upload", "browser_click"})
_SILENT_KEY = re.compile(
    r"(?:Shift\+)?Tab|Enter|Escape|Arrow(?:Up|Down|Left|Right)|Page(?:Up|Down)|Home|End|Backspace"
    r"|Delete|F(?:[1-9]|1[0-2])"
)
_ARGUMENTS: Sequence[type[ToolArguments]] = (
    *(NavigateArguments, SnapshotArguments, ClickArguments, TypeArguments, PressArguments),
    *(SelectArguments, ScrollArguments, BackArguments, ScreenshotArguments, ConsoleArguments),
    *(UploadArguments, DownloadArguments, TabsArguments),
)


class AskBeforeEntering(Wrapper[A]):
    """A tool that enters something into a page, which can leak data.

    In a tainted session, a host that the user has not named needs approval; files always do.
    """

    def __init__(self, inner: Tool[A], browsers: Browsers) -> None:
        super().__init__(inner)
        self._browsers = browsers

    async def run(self, arguments: A, context: ToolContext) -> ToolResult:
        said = arguments.model_dump()
        is_silent = is_silent_key(said.get("key", "")) or said.get("dialog_text") == ""
        if not is_silent and await must_ask(context):
            where = await self._browsers.ask(context, "where", ref=said.get("ref"))
            if where.is_error:
                return ToolResult(where.text, is_error=True)
            host = urlsplit(where.text).hostname or where.text[:80]
            files = " ".join(said.get("paths", ()))
            is_known = is_named(host, context.conversation, context.caller)
            if files or context.decision is not None or not is_known:
                what = files or said.get("text") or said.get("key") or said.get("dialog_text")
                subject = f"{self.name} {what} ({host})"
                await check_allowed(self.name, subject, f"{host} {files}".strip(), context)
        return await self._inner.run(arguments, context)


def file_name(given: str) -> str:
    """Return the name to keep a download by; a page that took over the browser may give any."""
    return PurePosixPath(given).name.lstrip(".") or "file"


def is_silent_key(key: str) -> bool:
    """Return whether a key enters nothing; other keys can spell something out or paste it."""
    return _SILENT_KEY.fullmatch(key) is not None


def is_named(host: str, conversation: Sequence[bytes], caller: Caller) -> bool:
    """Return whether the user has named a host; a model writes the messages to a subagent."""
    if caller.origin.get("platform") == SUBAGENT:
        return False
    name = re.escape(host.removeprefix("www.").encode())
    pattern = re.compile(rb"(?<![\w-])(?<![\w-]\.)(?:www\.)?%b(?![\w-]|\.\w)" % name)
    own = (m for m in conversation if m.startswith(b'{"role":"user"') and b"[Untrusted" not in m)
    return any(pattern.search(message) for message in own)


def browser_tools(browsers: Browsers, *, asks: bool) -> Sequence[Tool[Any]]:
    """The tools; with `asks`, what is entered into pages may need approval."""
    tools: list[Tool[Any]] = [BrowserTool(arguments, browsers) for arguments in _ARGUMENTS]
    enters = _ENTERS if asks else frozenset[str]()
    return [AskBeforeEntering(tool, browsers) if tool.name in enters else tool for tool in tools]


def addresses_of(arguments: NavigateArguments) -> Sequence[str]:
    """Return the address that a call opens."""
    url = arguments.url.strip()
    return [url if "://" in url else f"https://{url}"]
