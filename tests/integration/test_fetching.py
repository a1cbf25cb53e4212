"""Fetching from real servers: redirects, names that change, certificates, caps, bombs."""

import asyncio
import gzip
import ssl
import zlib
from collections.abc import Sequence
from datetime import UTC, datetime
from ipaddress import ip_network
from pathlib import Path

import pytest
from aiohttp import web

from agent_service.security.fetch.destinations import Destinations, Resolve
from agent_service.security.fetch.urls import Fetcher, FetchFailed, FetchLimits, FetchRefused
from services.rpc import certs
from services.rpc.auth import Identity
from tests.fakes.web import Site, site

INSIDE, OTHER = "127.0.0.1", "127.0.0.2"


class Names:
    """A resolver whose answers a test writes; the last one stays."""

    def __init__(self, *answers: str | tuple[str, ...]) -> None:
        self._answers = list(answers)
        self.asked: list[str] = []

    async def __call__(self, host: str) -> Sequence[str]:
        self.asked.append(host)
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        return [answer] if isinstance(answer, str) else answer


def fetcher(
    *sites: Site, names: Resolve | None = None, certificates: ssl.SSLContext | None = None
) -> Fetcher:
    """A fetcher to which the sites' ports are open, and of loopback one address only."""
    allowed = Destinations(
        private=[ip_network(f"{INSIDE}/32")],
        ports=[running.port for running in sites],
        resolve=names or Names(INSIDE),
    )
    return Fetcher(allowed, certificates)


async def hello(request: web.Request) -> web.StreamResponse:
    """Says which host was asked for."""
    return web.Response(text=f"hello from {request.host}")


def redirect(location: str) -> web.Response:
    """A redirect, whatever the location."""
    return web.Response(status=302, headers={"Location": location})


async def test_a_page_comes_from_the_address_that_was_looked_at() -> None:
    names = Names(INSIDE, OTHER)
    async with site(hello) as vetted, site(hello, OTHER, vetted.port) as other:
        page = await fetcher(vetted, names=names).get(vetted.url("shop.example", "/a?b=c"))
        assert page.text == f"hello from shop.example:{vetted.port}"
        assert (page.status, page.content_type, page.charset) == (200, "text/plain", "utf-8")
        assert vetted.paths == ["/a?b=c"]
        assert other.seen == []
    assert names.asked == ["shop.example"]


async def test_a_name_that_leads_elsewhere_after_a_redirect_is_refused() -> None:
    names = Names(INSIDE, OTHER)

    async def again(request: web.Request) -> web.StreamResponse:
        return redirect("/second")

    async with site(again) as vetted, site(hello, OTHER, vetted.port) as other:
        with pytest.raises(FetchRefused, match="not public"):
            await fetcher(vetted, names=names).get(vetted.url("shop.example"))
        assert other.seen == []
    assert names.asked == ["shop.example", "shop.example"]


@pytest.mark.parametrize(
    "location",
    [
        "http://127.0.0.2:{port}/",
        "http://127.0.0.2/",
        "http://169.254.169.254/latest/meta-data/",
        "http://[::1]:{port}/",
        "http://2130706434:{port}/",
        "file:///etc/passwd",
        "//user:secret@shop.example/",
        "http://shop.example:22/",
    ],
)
async def test_a_redirect_to_where_nothing_is_fetched_is_refused(location: str) -> None:
    async def away(request: web.Request) -> web.StreamResponse:
        return redirect(location.format(port=vetted.port))

    async with site(away) as vetted, site(hello, OTHER, vetted.port) as other:
        with pytest.raises(FetchRefused):
            await fetcher(vetted).get(vetted.url("shop.example"))
        assert other.seen == []
        assert len(vetted.seen) == 1


async def test_redirects_are_followed_but_not_for_ever() -> None:
    async def step(request: web.Request) -> web.StreamResponse:
        number = int(request.path.strip("/"))
        return web.Response(text="there") if number == 5 else redirect(f"/{number + 1}")

    async with site(step) as running:
        page = await fetcher(running).get(running.url("a.example", "/0"))
        assert (page.text, page.url) == ("there", running.url("a.example", "/5"))
        with pytest.raises(FetchFailed, match="more than 3 times"):
            await fetcher(running).get(running.url("a.example", "/0"), FetchLimits(redirects=3))


async def test_headers_of_the_caller_stay_with_their_origin() -> None:
    async def away(request: web.Request) -> web.StreamResponse:
        if request.host.startswith("a."):
            return redirect(running.url("b.example", "/there"))
        return web.Response(text="there", headers={"Set-Cookie": "a=b"})

    async with site(away) as running:
        key = {"X-Subscription-Token": "secret"}
        page = await fetcher(running).get(running.url("a.example"), headers=key)
        assert page.text == "there"
        assert ["X-Subscription-Token" in request.headers for request in running.seen] == [
            True,
            False,
        ]


async def test_the_next_address_is_tried_where_the_first_is_silent() -> None:
    names = Names(("127.0.0.3", INSIDE))
    async with site(hello) as running:
        allowed = Destinations(
            private=[ip_network("127.0.0.0/8")], ports=[running.port], resolve=names
        )
        assert (await Fetcher(allowed).get(running.url("two.example"))).status == 200


@pytest.fixture
def pki(tmp_path: Path) -> Path:
    """A CA and a certificate for shop.example."""
    folder = tmp_path / "pki"
    certs.init(folder, datetime.now(UTC))
    certs.issue(folder, Identity.GATEWAY, ["shop.example"], datetime.now(UTC))
    return folder


async def test_https_asks_for_the_name_and_believes_no_other(pki: Path) -> None:
    files = certs.files_of(pki, Identity.GATEWAY)
    asked: list[str | None] = []
    serving = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    serving.load_cert_chain(files.certificate, files.key)
    serving.sni_callback = lambda connection, name, context: asked.append(name)
    trusting = ssl.create_default_context(cafile=str(pki / "ca.crt"))
    async with site(hello, tls=serving) as running:
        fetching = fetcher(running, certificates=trusting)
        page = await fetching.get(running.url("shop.example", scheme="https"))
        assert page.text == f"hello from shop.example:{running.port}"
        with pytest.raises(FetchFailed, match="ConnectError"):
            await fetching.get(running.url("other.example", scheme="https"))
        with pytest.raises(FetchFailed, match="ConnectError"):
            await fetcher(running).get(running.url("shop.example", scheme="https"))
        assert len(running.seen) == 1
    assert asked[:2] == ["shop.example", "other.example"]


async def test_a_body_is_cut_at_its_limit() -> None:
    async def endless(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        for _ in range(10_000):
            await answer.write(b"x" * 10_000)
        return answer

    async with site(endless) as running:
        page = await fetcher(running).get(running.url("a.example"), FetchLimits(size_bytes=50_001))
    assert page.is_cut
    assert page.data == b"x" * 50_001


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
async def test_a_bomb_costs_no_more_than_the_limit(coding: str) -> None:
    packed = gzip.compress(bytes(200_000_000)) if coding == "gzip" else zlib.compress(bytes(10**8))
    assert len(packed) < 300_000

    async def bomb(request: web.Request) -> web.StreamResponse:
        return web.Response(body=packed, headers={"Content-Encoding": coding})

    async with site(bomb) as running:
        page = await fetcher(running).get(running.url("a.example"), FetchLimits(size_bytes=400_000))
    assert page.is_cut
    assert page.data == bytes(400_000)


@pytest.mark.parametrize(
    ("coding", "body", "why"),
    [
        ("br", b"...", "encoded as 'br'"),
        ("gzip, gzip", b"...", "encoded as"),
        ("gzip", b"no gzip", "compression is broken"),
    ],
)
async def test_codings_that_nobody_asked_for_are_refused(
    coding: str, body: bytes, why: str
) -> None:
    async def coded(request: web.Request) -> web.StreamResponse:
        return web.Response(body=body, headers={"Content-Encoding": coding})

    async with site(coded) as running:
        with pytest.raises(FetchFailed, match=why):
            await fetcher(running).get(running.url("a.example"))


async def test_small_compressed_pages_come_whole() -> None:
    async def page(request: web.Request) -> web.StreamResponse:
        body = gzip.compress("grün".encode("latin-1"))
        kind = {"Content-Encoding": "gzip", "Content-Type": 'text/html; charset="latin-1"'}
        return web.Response(body=body, headers=kind)

    async with site(page) as running:
        found = await fetcher(running).get(running.url("a.example"))
    assert (found.text, found.content_type, found.is_cut) == ("grün", "text/html", False)


async def test_a_server_that_trickles_is_given_up() -> None:
    async def trickle(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        while True:
            await answer.write(b"x")
            await asyncio.sleep(0.01)

    async with site(trickle) as running:
        with pytest.raises(FetchFailed, match=r"longer than 0\.3 s"):
            await fetcher(running).get(running.url("a.example"), FetchLimits(total_s=0.3))


async def test_a_proxy_of_the_environment_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    async with site(hello) as running, site(hello) as proxy:
        for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        assert (await fetcher(running).get(running.url("a.example"))).status == 200
        assert proxy.seen == []


async def test_a_document_is_posted_to_its_place_only() -> None:
    async def take(request: web.Request) -> web.StreamResponse:
        if request.path == "/moved":
            return redirect("/")
        return web.json_response(await request.json())

    async with site(take) as running:
        fetching = fetcher(running)
        there = await fetching.post(running.url("a.example"), {"a": 1}, FetchLimits(), {})
        assert there.text == '{"a": 1}'
        with pytest.raises(FetchFailed, match="redirect"):
            await fetching.post(running.url("a.example", "/moved"), {}, FetchLimits(), {})


async def test_what_does_not_answer_is_a_failure_without_the_url() -> None:
    async with site(hello) as running:
        port = running.port
    allowed = Destinations(private=[ip_network(INSIDE)], ports=[port], resolve=Names(INSIDE))
    with pytest.raises(FetchFailed, match="ConnectError") as failed:
        await Fetcher(allowed).get(f"http://a.example:{port}/?token=secret")
    assert "secret" not in str(failed.value)
