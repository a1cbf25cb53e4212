"""Addresses as they are written in flags and settings."""

from pathlib import Path

import pytest

from services.errors import InvalidArgument
from services.home.paths import MAX_SOCKET_PATH_BYTES
from services.rpc.addresses import TcpAddress, UnixAddress, parse_address


@pytest.mark.parametrize(
    ("text", "address", "target"),
    [
        ("agent:50051", TcpAddress("agent", 50051), "dns:///agent:50051"),
        ("dns:///agent.ns.svc:1", TcpAddress("agent.ns.svc", 1), "dns:///agent.ns.svc:1"),
        ("127.0.0.1:0", TcpAddress("127.0.0.1", 0), "dns:///127.0.0.1:0"),
        ("[::1]:50051", TcpAddress("::1", 50051), "dns:///[::1]:50051"),
        ("unix:/run/h.sock", UnixAddress(Path("/run/h.sock")), "unix:/run/h.sock"),
        ("unix:///run/h.sock", UnixAddress(Path("/run/h.sock")), "unix:/run/h.sock"),
    ],
)
def test_an_address_is_read(text: str, address: TcpAddress | UnixAddress, target: str) -> None:
    assert parse_address(text) == address
    assert address.target == target
    assert parse_address(str(address)) == address


@pytest.mark.parametrize(
    "text",
    ["", "agent", ":50051", "agent:", "agent:port", "agent:-1", "agent:65536", "agent:¹", "unix:h"],
)
def test_anything_else_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(InvalidArgument, match=r"(host:port|unix:/path)"):
        parse_address(text)


def test_a_socket_path_fits_the_kernel() -> None:
    longest = "/" + "é" * ((MAX_SOCKET_PATH_BYTES - 1) // 2)
    assert parse_address(f"unix:{longest}") == UnixAddress(Path(longest))
    with pytest.raises(InvalidArgument, match="longer than 107 bytes"):
        parse_address(f"unix:{longest}é")


@pytest.mark.parametrize(
    ("host", "local"),
    [
        ("localhost", True),
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("::1", True),
        ("0.0.0.0", False),
        ("::", False),
        ("10.0.0.1", False),
        ("localhost.example", False),
        ("agent", False),
    ],
)
def test_only_loopback_stays_on_the_machine(host: str, local: bool) -> None:
    assert TcpAddress(host, 1).is_local is local
    assert UnixAddress(Path("/run/h.sock")).is_local


def test_whoever_is_at_an_address_can_have_another_name() -> None:
    found = parse_address("10.0.0.7:7401#agent.hermes.svc")
    assert found == TcpAddress("10.0.0.7", 7401, "agent.hermes.svc")
    assert found.target == "dns:///10.0.0.7:7401"
    assert parse_address("[fd00::7]:7401#agent") == TcpAddress("fd00::7", 7401, "agent")
