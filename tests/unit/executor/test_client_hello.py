"""What the first bytes of a tunnel say: which host TLS is for."""

import contextlib
import ssl

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from executor_service.egress.client_hello import NotTls, server_name


def client_hello(name: str) -> bytes:
    """What a real client says first."""
    outgoing = ssl.MemoryBIO()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client = context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname=name)
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


@pytest.mark.parametrize("name", ["example.com", "a.b.example.org"])
def test_the_name_in_a_hello_is_found_as_soon_as_it_is_whole(name: str) -> None:
    hello = client_hello(name)
    assert server_name(hello) == name
    assert [server_name(hello[:n]) for n in range(len(hello))] == [None] * len(hello)
    assert server_name(hello + b"early data") == name


def test_a_hello_in_many_records_is_one() -> None:
    hello = client_hello("example.com")
    body = hello[5:]
    assert server_name(in_records(body, 8)) == "example.com"
    assert server_name(in_records(body, 8)[:-1]) is None
    for count in (9, len(body)):
        with pytest.raises(NotTls, match="too many records"):
            server_name(in_records(body, count))


def in_records(body: bytes, count: int) -> bytes:
    size = -(-len(body) // count)
    pieces = [body[n : n + size] for n in range(0, len(body), size)]
    return b"".join(b"\x16\x03\x01" + len(piece).to_bytes(2, "big") + piece for piece in pieces)


@pytest.mark.parametrize("count", [100, 101, 16000])
def test_a_hello_has_so_many_extensions(count: int) -> None:
    extensions = b"\x03\xe8\0\0" * count
    hello = b"\3\3" + bytes(32) + b"\0" + b"\0\2\1\1" + b"\1\0"
    hello += len(extensions).to_bytes(2, "big") + extensions
    records = in_records(b"\1" + len(hello).to_bytes(3, "big") + hello, 1 + count // 4000)
    if count <= 100:
        assert server_name(records) == ""
    else:
        with pytest.raises(NotTls, match="too many extensions"):
            server_name(records)


def test_a_hello_need_not_name_a_host() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    outgoing = ssl.MemoryBIO()
    client = context.wrap_bio(ssl.MemoryBIO(), outgoing)
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    assert server_name(outgoing.read()) == ""


def test_two_names_are_refused() -> None:
    hello = client_hello("example.com")
    entry = b"\0\0\x0bexample.com"
    start = hello.index(entry)
    # One entry more, and every length around it is larger by that much.
    forged = bytearray(hello[:start] + entry + hello[start:])
    for at, size in ((3, 2), (6, 3), (start - 2, 2), (start - 4, 2)):
        length = int.from_bytes(forged[at : at + size], "big") + len(entry)
        forged[at : at + size] = length.to_bytes(size, "big")
    extensions = start - 8
    length = int.from_bytes(forged[extensions : extensions + 2], "big") + len(entry)
    forged[extensions : extensions + 2] = length.to_bytes(2, "big")
    with pytest.raises(NotTls):
        server_name(bytes(forged))


@given(st.binary(max_size=300), st.integers(0, 400), st.integers(0, 255))
@example(b"GET / HTTP/1.1\r\n\r\n", 0, 0)
@example(b"SSH-2.0-x\r\n", 0, 0)
def test_no_bytes_are_taken_for_another_name(noise: bytes, at: int, value: int) -> None:
    for data in (noise, b"\x16\x03\x01" + noise):
        with contextlib.suppress(NotTls):
            assert server_name(data) in (None, "")
    hello = bytearray(client_hello("example.com"))
    hello[at % len(hello)] = value
    try:
        found = server_name(bytes(hello))
    except NotTls:
        return
    assert found is None or len(found) <= len("example.com")
