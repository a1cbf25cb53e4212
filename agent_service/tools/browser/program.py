"""Drives a browser: one request a line of JSON on standard input, one answer a line on output.

Runs as a program of its own in a sandbox, or beside the agent for a browser elsewhere. It imports
only the standard library and playwright, and ends when nobody has asked for anything in a while.
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
import shutil
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from agent_service.tools.browser.egress import Hosts, Proxy, Refused, RequestChecks

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, Dialog, Download, Locator, Page, Playwright

IDLE_S = 900.0
ACTION_MS = 10_000
PAGE_MS = 30_000
SETTLE_MS = 3_000
SNAPSHOT_CHARS, FULL_CHARS = 20_000, 90_000
MAX_FILE_BYTES = 50_000_000
MAX_REQUEST_BYTES = 1_000_000
# Debian's `chromium` is a script that needs files of /etc, which not all sandboxes have.
CHROMIUMS = ("/usr/lib/chromium/chromium", "chromium", "chromium-browser", "google-chrome")
FLAGS = (
    *("--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--disable-dev-shm-usage"),
    *("--disable-breakpad", "--disable-features=Translate,OptimizationHints,MediaRouter"),
    "--proxy-bypass-list=<-loopback>",
    # WebRTC would not use the proxy.
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
)
WINDOW: Any = {"width": 1280, "height": 800}
INSTALL = (
    "The browser cannot start: {0}. `make browser-image` makes an image with all that it needs. "
    "Elsewhere install Chromium, and playwright for the Python that browser.python names."
)
NOT_CONNECTED = "The browser at browser.cdp_url cannot be used. Check that it runs."
"""Says no more, as errors have the address, which can have a password."""
CLOSED = "The page was closed and is not shown, as it was redirected: {0}."
GONE = "There is no element {0} on the page now. Take a new browser_snapshot."

Request = dict[str, Any]
Answer = dict[str, Any]


class PageEvents:
    """What pages do by themselves; dialogs are answered at once, as they would block their page."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.console: list[str] = []
        self.files: list[dict[str, str]] = []
        self._number = self._saving = 0
        self.saved = asyncio.Event()
        """Whether no download is running."""
        self.saved.set()
        self.failed: set[str] = set()
        """Addresses of failed requests."""
        self.request: Request = {}
        """The running request, which says how to answer dialogs."""
        self._folder = Path("downloads")

    def watch(self, page: Page) -> None:
        page.on("console", lambda said: self._log(f"{said.type}: {said.text}"))
        page.on("pageerror", lambda error: self._log(f"uncaught: {error}"))
        page.on("download", self._save)
        page.on("dialog", self._answer)
        page.on("requestfailed", lambda it: self.failed.add(it.url))
        page.on("crash", lambda _: self.told.append("The page crashed; navigate again."))

    def forget(self) -> None:
        self.told, self.console, self.files = [], [], []

    def _log(self, line: str) -> None:
        self.console = [*self.console[-199:], line[:1000]]

    async def _answer(self, dialog: Dialog) -> None:
        is_harmless = dialog.type in ("alert", "beforeunload")
        accepts = is_harmless or bool(self.request.get("accept_dialog"))
        text = f"A dialog ({dialog.type}) said {dialog.message[:1000]!r}"
        if accepts:
            await dialog.accept(self.request.get("dialog_text") or dialog.default_value)
        else:
            await dialog.dismiss()
        self.told.append(f"{text} and was {'accepted' if accepts else 'dismissed'}.")

    async def _save(self, download: Download) -> None:
        self._number += 1
        self._saving += 1
        self.saved.clear()
        try:
            await self._keep(download, self._number)
        finally:
            self._saving -= 1
            if not self._saving:
                self.saved.set()

    async def _keep(self, download: Download, number: int) -> None:
        name = re.sub(r"[^\w.,()+@ -]", "_", download.suggested_filename).strip(" .-")[-80:]
        path = self._folder / f"{number}-{name}"
        if why := await download.failure():
            self.told.append(f"The download of {name} failed: {why}.")
            return
        await download.save_as(path)
        size = path.stat().st_size
        if size > MAX_FILE_BYTES:
            path.unlink()
            self.told.append(f"{name} was not kept: it has more than {MAX_FILE_BYTES:,} bytes.")
            return
        self.files.append({"name": name or "file", "path": str(path)})
        self.told.append(f"{name} ({size:,} bytes) was downloaded; browser_download fetches it.")


class Browser:
    """A browser with one context."""

    def __init__(self, cdp_url: str, proxy: Proxy, failures: tuple[type[Exception], ...]) -> None:
        """`failures` are what a request may fail with."""
        self._cdp_url = cdp_url
        self._proxy = proxy
        self._hosts = proxy.hosts
        self._failures = failures
        self._folder = Path.cwd()
        self._events = PageEvents()
        self._checks = RequestChecks(proxy.hosts, proxy.refused, failures)

    async def open(self, playwright: Playwright, proxy_url: str) -> None:
        """Start the browser, or connect to one elsewhere."""
        if self._cdp_url:
            browser = await playwright.chromium.connect_over_cdp(self._cdp_url)
            self._context = await browser.new_context(viewport=WINDOW)
            await self._checks.watch(self._context)
        else:
            self._context = await self._launched(playwright, proxy_url)
        self._context.set_default_timeout(ACTION_MS)
        self._context.set_default_navigation_timeout(PAGE_MS)
        self._page = (self._context.pages or [await self._context.new_page()])[0]
        self._events.watch(self._page)
        self._context.on("page", self._added)

    async def _launched(self, playwright: Playwright, proxy_url: str) -> BrowserContext:
        program = next(filter(None, map(shutil.which, CHROMIUMS)), None)
        if program is None:
            raise Refused("there is no Chromium")
        return await playwright.chromium.launch_persistent_context(
            "",  # a new folder, which ends with the browser
            executable_path=program,
            chromium_sandbox=False,
            args=FLAGS,
            proxy={"server": proxy_url},
            viewport=WINDOW,
        )

    async def close(self) -> None:
        with suppress(*self._failures):
            await self._context.close()

    def _added(self, page: Page) -> None:
        self._events.watch(page)
        number = len(self._context.pages)
        self._events.told.append(f"Tab {number} was opened: browser_tabs can select it.")

    async def answer(self, request: Request) -> Answer:
        """Return the answer to a request, with what happened meanwhile."""
        await self._find_page()
        before, self._events.request = self._page.url, request
        answer: Answer = {}
        try:
            done: str | Answer = await getattr(self, f"do_{request['op']}")(request)
            answer.update({"text": done} if isinstance(done, str) else done)
            is_new = self._page.url.partition("#")[0] != before.partition("#")[0]
            if is_new or request["op"] == "navigate":
                answer["text"] += f"\n{await self._shown(SNAPSHOT_CHARS)}"
        except self._failures as error:
            answer = {"text": _first_line(error), "is_error": True}
        if why := await self._checks.close_refused(self._context):
            self._events.forget()
            await self._find_page()
            answer = {"text": CLOSED.format(why), "is_error": True}
        if request["op"] == "where":
            return answer
        remarks, self._events.told = [*self._events.told, *self._refusals()], []
        answer["text"] = "\n".join([answer["text"], *(f"[{line}]" for line in remarks)])
        return {"url": self._page.url, **answer}

    async def _find_page(self) -> None:
        if self._page.is_closed():
            self._page = (self._context.pages or [await self._context.new_page()])[-1]

    def _refusals(self) -> list[str]:
        """Return why requests of pages failed; the browser's own do not matter."""
        failed, self._events.failed = self._events.failed, set()
        refused = dict(self._proxy.refused)
        self._proxy.refused.clear()
        found = [
            refused.get(urlsplit(url).hostname or "")
            or self._hosts.why_not_url(url, is_direct=bool(self._cdp_url))
            for url in sorted(failed)[:20]
        ]
        return [f"Not reached: {why}" for why in dict.fromkeys(filter(None, found))]

    async def _element(self, request: Request) -> Locator:
        ref = str(request["ref"]).strip().removeprefix("ref=").lstrip("@")
        element = self._page.locator(f"aria-ref={ref}")
        if not await element.count():
            raise Refused(GONE.format(ref))
        return element

    async def _settle(self) -> None:
        """Wait until what an action started has probably happened."""
        await asyncio.sleep(0.15)
        with suppress(*self._failures):
            await self._page.wait_for_load_state("load", timeout=SETTLE_MS)

    async def _shown(self, most: int) -> str:
        tree = await self._page.aria_snapshot(mode="ai", timeout=ACTION_MS)
        if (more := len(tree) - most) > 0:
            tree = f"{tree[:most]}\n[… {more:,} more characters; a full snapshot has more of them]"
        return f"Page: {await self._page.title()}\nURL: {self._page.url}\n{tree}"

    async def do_navigate(self, request: Request) -> str:
        url = str(request["url"]).strip()
        url = url if re.match(r"[a-zA-Z][\w+.-]*:(?!\d)", url) else f"https://{url}"
        if why := self._hosts.why_not_url(url, is_direct=bool(self._cdp_url)):
            raise Refused(f"{url} was not opened: {why}.")
        response = None
        try:
            response = await self._page.goto(url, wait_until="domcontentloaded")
        except self._failures as error:
            if "Download is starting" not in str(error):
                raise
        await self._settle()
        status = 200 if response is None else response.status
        return f"Opened {url}{f', with status {status}' if status >= 400 else ''}."

    async def do_snapshot(self, request: Request) -> str:
        return await self._shown(FULL_CHARS if request.get("full") else SNAPSHOT_CHARS)

    async def do_click(self, request: Request) -> str:
        await (await self._element(request)).click(click_count=2 if request.get("double") else 1)
        await self._settle()
        return "Clicked."

    async def do_type(self, request: Request) -> str:
        element = await self._element(request)
        await element.fill(request["text"])
        if request.get("submit"):
            await element.press("Enter")
            await self._settle()
        return "Typed."

    async def do_press(self, request: Request) -> str:
        await self._page.keyboard.press(request["key"])
        await self._settle()
        return "Pressed."

    async def do_select(self, request: Request) -> str:
        chosen = await (await self._element(request)).select_option(request["values"])
        await self._settle()
        return f"Selected {', '.join(chosen)}."

    async def do_scroll(self, request: Request) -> str:
        if request.get("ref"):
            await (await self._element(request)).scroll_into_view_if_needed()
        else:
            await self._page.mouse.move(WINDOW["width"] / 2, WINDOW["height"] / 2)
            await self._page.mouse.wheel(0, -700 if request.get("direction") == "up" else 700)
        await asyncio.sleep(0.4)
        where = "[Math.round(scrollY), innerHeight, document.documentElement.scrollHeight]"
        at, shown, height = await self._page.evaluate(where)
        return f"Scrolled: pixels {at} to {at + shown} of {height} are in view."

    async def do_back(self, _request: Request) -> str:
        if await self._page.go_back(wait_until="domcontentloaded") is None:
            raise Refused("There is no page to go back to.")
        await self._settle()
        return "Went back."

    async def do_screenshot(self, request: Request) -> Answer:
        if request.get("ref"):
            element = await self._element(request)
            data = await element.screenshot(type="jpeg", quality=75)
        else:
            is_full = bool(request.get("full_page"))
            data = await self._page.screenshot(type="jpeg", quality=75, full_page=is_full)
        return {"text": self._page.url, "picture": base64.b64encode(data).decode()}

    async def do_console(self, request: Request) -> str:
        lines = self._events.console
        if request.get("clear"):
            self._events.console = []
        return "\n".join(lines) or "Nothing was logged."

    async def do_upload(self, request: Request) -> str:
        element = await self._element(request)
        paths = [self._folder / each for each in request["paths"]]
        if await element.evaluate("element => element.type === 'file'"):
            await element.set_input_files(paths)
        else:
            async with self._page.expect_file_chooser() as chooser:
                await element.click()
            await (await chooser.value).set_files(paths)
        await self._settle()
        return "Uploaded."

    async def do_download(self, request: Request) -> Answer:
        if request.get("ref"):
            async with self._page.expect_download(timeout=PAGE_MS):
                await (await self._element(request)).click()
        await asyncio.wait_for(self._events.saved.wait(), PAGE_MS / 1000)
        files, self._events.files = self._events.files, []
        return {"text": "", "files": files}

    async def do_tabs(self, request: Request) -> str:
        action, number = request.get("action"), int(request.get("tab") or 0)
        if action in ("select", "close"):
            if not 1 <= number <= len(self._context.pages):
                raise Refused(f"There is no tab {number}.")
            self._page = self._context.pages[number - 1]
            if action == "close":
                await self._page.close()
                await self._find_page()
        elif action == "new":
            self._page = await self._context.new_page()
        await self._page.bring_to_front()
        tabs = enumerate(self._context.pages, 1)
        marks = {True: " (current)", False: ""}
        lines = [f"{n}: {await p.title()} {p.url}{marks[p is self._page]}" for n, p in tabs]
        return "\n".join(lines)

    async def do_where(self, request: Request) -> str:
        """Return the address of the frame that has an element, or of the page."""
        if not request.get("ref"):
            return self._page.url
        return await (await self._element(request)).evaluate("() => location.href")


def _first_line(error: Exception) -> str:
    text = str(error).partition("\n")[0].strip() or type(error).__name__
    return re.sub(r"^[A-Z]\w+\.\w+: ", "", text)[:500]


async def serve() -> None:
    """Answer requests until the input ends or nobody asks any more."""
    lines = asyncio.StreamReader(limit=MAX_REQUEST_BYTES)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    settings = json.loads(await lines.readline())
    try:
        from playwright.async_api import Error, async_playwright
    except ImportError:
        _say(settings["id"], {"text": INSTALL.format("playwright is missing"), "is_error": True})
        return
    failures = Error, Refused, OSError, ValueError, LookupError, asyncio.TimeoutError
    proxy = Proxy(Hosts(settings.get("allow") or [], settings.get("deny") or []))
    async with proxy.serving() as proxy_url, async_playwright() as playwright:
        browser = Browser(settings.get("cdp_url") or "", proxy, failures)
        try:
            await browser.open(playwright, proxy_url)
        except failures as error:
            why = INSTALL.format(_first_line(error).rstrip("."))
            why = NOT_CONNECTED if settings.get("cdp_url") else why
            _say(settings["id"], {"text": why, "is_error": True})
            return
        _say(settings["id"], {"text": "ready"})
        with suppress(asyncio.TimeoutError):
            while line := await asyncio.wait_for(lines.readline(), IDLE_S):
                request = json.loads(line)
                _say(request["id"], await browser.answer(request))
        await browser.close()


def _say(number: int, answer: Answer) -> None:
    sys.stdout.write(f"{json.dumps({'id': number, **answer})}\n")
    sys.stdout.flush()


def main() -> None:
    """Run the program."""
    asyncio.run(serve())
