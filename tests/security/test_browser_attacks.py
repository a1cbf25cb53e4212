"""What pages and models try with a browser, in a network of its own that has what they look for:
metadata of a cloud, a private network and services of the machine. Each attack works without its
guard."""

import asyncio
import json
import shutil
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from agent_service.tools.browser.browsers import program_argv
from agent_service.tools.browser.program import FLAGS
from tests.support.executors import until
from tests.support.requirements import require

pytestmark = pytest.mark.timeout(90)

PUBLIC = "9.9.9.9"
TARGETS = ("169.254.169.254", "10.0.0.1", "127.0.0.1", "localhost")
SECRET = "the key of the machine"
STEALS = """<title>Steals</title><p id="out">waiting</p><script>
fetch(new URLSearchParams(location.search).get('to'), {mode: 'no-cors'})
  .then(() => out.textContent = 'stolen', () => out.textContent = 'refused')</script>"""
NETWORK = f"""ip link set lo up
for address in {PUBLIC} 169.254.169.254 10.0.0.1; do ip address add $address/32 dev lo; done
python3 -m http.server 80 --directory "$0" 2>"$0/log" >/dev/null &
"$@"
kill $!
"""


class Driven(Struct):
    """A browser's program in a network of its own, with one server at all addresses."""

    process: Process
    folder: Path

    async def ask(self, **request: Any) -> str:
        """Return the text of an answer."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps({"id": 1, **request}).encode() + b"\n")
        return json.loads(await self.process.stdout.readline())["text"]

    async def open(self, url: str) -> str:
        return await self.ask(op="navigate", url=url)

    async def log(self) -> str:
        """Return what the server was asked for."""
        return await asyncio.to_thread((self.folder / "log").read_text)


@asynccontextmanager
async def driven(folder: Path, allow: Sequence[str]) -> AsyncGenerator[Driven]:
    """Run it with a list of `security.browser.allow`."""
    await asyncio.to_thread(_lay_out, folder)
    argv = ("unshare", "--net", "--map-root-user", "sh", "-c", NETWORK, str(folder))
    process = await asyncio.create_subprocess_exec(
        *argv,
        *await asyncio.to_thread(program_argv),
        cwd=folder,
        stdin=PIPE,
        stdout=PIPE,
        stderr=DEVNULL,
        limit=10**8,
    )
    try:
        browser = Driven(process, folder)
        assert await browser.ask(allow=[*allow]) == "ready"
        yield browser
    finally:
        assert process.stdin is not None
        process.stdin.close()
        await process.wait()


def _lay_out(folder: Path) -> None:
    for program in ("chromium", "unshare", "ip"):
        require("chromium", bool(shutil.which(program)), f"{program} is not installed")
    folder.mkdir(exist_ok=True)
    (folder / "secret.html").write_text(f"<title>Secret</title><p>{SECRET}</p>")
    (folder / "steals.html").write_text(STEALS)


@pytest.mark.parametrize("is_guarded", [True, False])
async def test_neither_models_nor_pages_reach_what_is_not_public(
    is_guarded: bool, tmp_path: Path
) -> None:
    async with driven(tmp_path / "site", () if is_guarded else (PUBLIC, *TARGETS)) as browser:
        for target in TARGETS:
            secret = f"http://{target}/secret.html"
            told = await browser.open(f"{secret}?model={target}")
            assert (SECRET in told) != is_guarded, target
            await browser.open(f"http://{PUBLIC}/steals.html?to={secret}%3Fpage={target}")

            async def ended() -> bool:
                return "waiting" not in await browser.ask(op="snapshot")

            await until(ended)
            said = await browser.ask(op="snapshot")
            assert ("refused" if is_guarded else "stolen") in said, target
            asked = await browser.log()
            for who in (f"?model={target} ", f"?page={target} "):
                assert (f"GET /secret.html{who}" in asked) != is_guarded, who


async def test_models_read_no_files_which_the_browser_itself_would_show(tmp_path: Path) -> None:
    site = tmp_path / "site"
    url = f"{site.as_uri()}/secret.html"
    async with driven(site, ()) as browser:
        for each in (url, f"view-source:{url}", url.replace("file:///", "file://localhost/")):
            told = await browser.open(each)
            assert "only http and https" in told
            assert SECRET not in told
        assert SECRET not in await browser.ask(op="snapshot")
    argv = ("chromium", *FLAGS, "--headless", "--no-sandbox", "--dump-dom", url)
    bare = await asyncio.create_subprocess_exec(*argv, stdout=PIPE, stderr=DEVNULL)
    shown, _ = await bare.communicate()
    assert SECRET in shown.decode()
