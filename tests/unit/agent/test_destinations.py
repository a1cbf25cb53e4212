"""Where fetches may go, and every spelling of where they may not."""

from collections.abc import Sequence
from ipaddress import ip_network

import pytest

from agent_service.security.fetch.destinations import (
    Destinations,
    FetchFailed,
    FetchRefused,
    Origin,
)

PUBLIC = "93.184.216.34"


def named(*answers: str) -> Destinations:
    """Destinations of a world in which every name has these addresses."""

    async def resolve(host: str) -> Sequence[str]:
        return answers

    return Destinations(resolve=resolve)


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "127.8.8.8",
        "0.0.0.0",
        "10.0.0.1",
        "100.64.0.1",
        "100.100.100.200",
        "169.254.169.254",
        "168.63.129.16",
        "172.31.255.255",
        "192.0.0.192",
        "192.168.1.1",
        "198.18.0.1",
        "224.0.0.1",
        "255.255.255.255",
        "[::]",
        "[::1]",
        "[::127.0.0.1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:a00:1]",
        "[64:ff9b::7f00:1]",
        "[64:ff9b::a9fe:a9fe]",
        "[64:ff9b:1::1]",
        "[2002:7f00:1::1]",
        "[2001:0:4136:e378:8000:63bf:3fff:fdd2]",
        "[fc00::1]",
        "[fd00:ec2::254]",
        "[fe80::1]",
        "[fec0::1]",
        "[ff02::1]",
        "[2001:db8::1]",
    ],
)
async def test_addresses_that_are_nobody_elses_business_are_refused(host: str) -> None:
    with pytest.raises(FetchRefused, match="not public"):
        await named().addresses(f"http://{host}/")
    with pytest.raises(FetchRefused, match="not public"):
        await named(PUBLIC, host.strip("[]")).addresses("http://mixed.example/")


@pytest.mark.parametrize(
    "host",
    [
        "2130706433",
        "017700000001",
        "0x7f000001",
        "0x7f.0x0.0x0.0x1",
        "0177.0.0.1",
        "127.1",
        "127.0.1",
        "0",
        "1.2.3.4.5",
        "example.0x7f",
        "256.256.256.256",
        "127.0.0.1e",
    ],
)
async def test_an_address_has_one_form(host: str) -> None:
    if host.endswith("e"):
        assert Origin.parse(f"http://{host}/").host == host
        return
    with pytest.raises(FetchRefused, match="four decimal numbers"):
        await named("127.0.0.1").addresses(f"http://{host}/")


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1.", "１２７.0.0.1", "127。0。0。1", "①②⑦.0.0.1"],  # noqa: RUF001
)
async def test_spellings_of_an_address_are_that_address(host: str) -> None:
    with pytest.raises(FetchRefused, match="not public"):
        await named(PUBLIC).addresses(f"http://{host}/")


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("file:///etc/passwd", "http and https"),
        ("gopher://example.com/", "http and https"),
        ("//example.com/", "http and https"),
        ("http://user:hunter2@example.com/", "password"),
        ("http://user@example.com/", "password"),
        ("http://@example.com/", "password"),
        ("http://example.com\\@127.0.0.1/", "backslashes"),
        ("http://exa mple.com/", "spaces"),
        ("http://example.com/\r\nX: y", "control"),
        ("http://", "no usable host"),
        ("http://[fe80::1%25eth0]/", "no usable host"),
        ("http://[::1", "malformed"),
        ("http://a..b/", "malformed"),
        ("http://-a.example/", "malformed"),
        ("http://ex%61mple.com/", "no usable host"),
        (f"http://{'a' * 64}.example/", "malformed"),
        ("http://example.com:0/", "port 0"),
        ("http://example.com:99999/", "malformed"),
        ("http://example.com/" + "a" * 9000, "longer"),
    ],
)
async def test_urls_that_are_not_fetched(url: str, why: str) -> None:
    with pytest.raises(FetchRefused, match=why) as refused:
        await named(PUBLIC).addresses(url)
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("port", [22, 25, 6379, 8080])
async def test_only_the_ports_of_the_web_are_fetched_from(port: int) -> None:
    with pytest.raises(FetchRefused, match="80, 443"):
        await named(PUBLIC).addresses(f"http://example.com:{port}/")
    opened = Destinations(ports=[port])
    assert await opened.addresses(f"http://{PUBLIC}:{port}/")


async def test_what_is_public_is_allowed() -> None:
    found = await named(PUBLIC, "2606:4700::1111").addresses("https://Example.COM./a?b#c")
    assert [str(address) for address in found] == [PUBLIC, "2606:4700::1111"]
    assert await named().addresses("http://[64:ff9b::5db8:d822]/")
    assert await named().addresses(f"http://[::ffff:{PUBLIC}]/")


async def test_a_name_without_an_address_is_a_failure() -> None:
    with pytest.raises(FetchFailed, match=r"nowhere\.example has no address"):
        await named().addresses("http://nowhere.example/")


async def test_a_list_opens_private_networks_but_never_metadata() -> None:
    opened = Destinations(private=[ip_network("10.0.0.0/8"), ip_network("169.254.0.0/16")])
    assert await opened.addresses("http://10.1.2.3/")
    assert await opened.addresses("http://[::ffff:10.1.2.3]/")
    for host in ("11.0.0.0.", "127.0.0.1", "169.254.169.254", "[::ffff:169.254.169.254]"):
        if host.startswith("11"):
            assert await opened.addresses(f"http://{host}/")
            continue
        with pytest.raises(FetchRefused, match="not public"):
            await opened.addresses(f"http://{host}/")


async def test_a_trusted_origin_is_open_and_nothing_beside_it() -> None:
    trusting = Destinations(trusted=["http://127.0.0.1:8888/search"])
    assert await trusting.addresses("http://127.0.0.1:8888/other")
    for url in ("http://127.0.0.1:8889/", "https://127.0.0.1:8888/", "http://127.0.0.1/"):
        with pytest.raises(FetchRefused):
            await trusting.addresses(url)
