"""What the first bytes of a tunnel say: which host TLS is for."""

import contextlib
import ssl

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from executor_service.network.tls import MAX_HELLO_BYTES, ClientHello, NotTls


def server_name(data: bytes) -> str | None:
    return ClientHello().feed(data)


def client_hello(name: str | None) -> bytes:
    """What a real client says first."""
    outgoing = ssl.MemoryBIO()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = name is not None
    client = context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname=name)
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


@pytest.mark.parametrize("name", ["example.com", None])
def test_the_name_in_a_hello_is_found_as_soon_as_it_is_whole(name: str | None) -> None:
    wire, hello = client_hello(name), ClientHello()
    assert server_name(wire + b"early data") == (name or "")
    *parts, last = (wire[n : n + 1] for n in range(len(wire)))
    assert {hello.feed(part) for part in parts} == {None}
    assert hello.feed(last) == (name or "")


def test_a_hello_ends_at_some_time() -> None:
    endless = b"\1" + (1 << 17).to_bytes(3, "big") + bytes(MAX_HELLO_BYTES)
    pieces = [endless[n : n + 16384] for n in range(0, len(endless), 16384)]
    with pytest.raises(NotTls):
        server_name(b"".join(b"\x16\3\1" + len(p).to_bytes(2, "big") + p for p in pieces))


def test_two_names_are_refused() -> None:
    hello = client_hello("example.com")
    entry = b"\0\0\x0bexample.com"
    start = hello.index(entry)
    # One entry more, and every length around it is larger by that much.
    forged = bytearray(hello[:start] + entry + hello[start:])
    session = 44 + hello[43]
    ciphers = session + 2 + int.from_bytes(hello[session : session + 2], "big")
    extensions = ciphers + 1 + hello[ciphers]
    for at, size in ((3, 2), (6, 3), (start - 2, 2), (start - 4, 2), (extensions, 2)):
        length = int.from_bytes(forged[at : at + size], "big") + len(entry)
        forged[at : at + size] = length.to_bytes(size, "big")
    with pytest.raises(NotTls):
        server_name(bytes(forged))


# Python only says on standard error that a name is no ASCII.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@given(st.binary(max_size=300), st.integers(0, 400), st.integers(0, 255))
@example(b"GET / HTTP/1.1\r\n\r\n", 0, 0)
@example(b"SSH-2.0-x\r\n", 0, 0)
def test_no_bytes_are_taken_for_another_name(noise: bytes, at: int, value: int) -> None:
    for data in (noise, b"\x16\x03\x01" + noise):
        with contextlib.suppress(NotTls):
            assert server_name(data) in (None, "")
    hello = bytearray(client_hello("example.com"))
    hello[at % len(hello)] = value
    with contextlib.suppress(NotTls):
        found = server_name(bytes(hello))
        assert found is None or len(found) <= len("example.com")
