"""What a sandbox may reach: nothing, some hosts, or every public address."""

import re
from collections.abc import Iterable
from enum import StrEnum
from typing import Self

from msgspec import Struct

from services.rpc.public_addresses import address_of

WEB_PORTS = (80, 443)
MAX_RULES = 256
_MAX_NAME_CHARACTERS = 253
_LABEL = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_NAME = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
_RULE = re.compile(
    r"(?:\[(?P<address>[^\[\]]+)\]|(?P<host>[^\[\]:]+))(?::(?P<ports>\d{1,5}(?:,\d{1,5}){0,31}))?"
)
_ENDS_IN_NUMBER = re.compile(r"(?:.*\.)?(?:[0-9]+|0x[0-9a-f]*)")
"""Some programs take such a name for an address: 127.1, 2130706433, 0x7f000001."""


class NetworkMode(StrEnum):
    """What a sandbox can reach."""

    NONE = "none"
    """Nothing but its own loopback."""
    ALLOW_LIST = "allow_list"
    OPEN = "open"
    """Every public address."""


class Target(Struct, frozen=True):
    """The host and port of a connection."""

    host: str
    """A name in lower case, or an address in its usual form."""
    port: int

    @classmethod
    def parse(cls, host: str, port: int) -> Self:
        """Returns the target; ValueError if the host is neither a name nor an address."""
        return cls(parse_host(host), port)

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


class Rule(Struct, frozen=True):
    """One entry of an allow list."""

    host: str
    """A name, `*.` and a name for everything below it, or an address."""
    ports: tuple[int, ...] = ()
    """Empty stands for 80 and 443."""

    @classmethod
    def create(cls, host: str, ports: Iterable[int] = ()) -> Self:
        """Returns the rule for a host in any form; the ValueError says what is expected."""
        below = "*." if host.startswith("*.") else ""
        return cls(below + parse_host(host.removeprefix("*.")), tuple(ports))

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parses `host`, `host:port` or `[address]:port,port`; fails with ValueError."""
        found = _RULE.fullmatch(text)
        if found is None:
            raise ValueError(f"{text[:80]!r} is no host with ports, such as example.com:443,8443")
        ports = map(int, found["ports"].split(",")) if found["ports"] else ()
        return cls.create(found["address"] or found["host"], ports)

    def __post_init__(self) -> None:
        """Fails with ValueError, which says what is expected."""
        if parse_host(self.host.removeprefix("*.")) != self.host.removeprefix("*."):
            raise ValueError(f"{self.host!r} is not in its usual form")
        if self.host.startswith("*.") and address_of(self.host[2:]):
            raise ValueError(f"{self.host!r}: only names have others below them")
        if not all(0 < port < 65536 for port in self.ports):
            raise ValueError(f"{self.host!r}: ports are 1 to 65535")

    def matches(self, target: Target) -> bool:
        if target.port not in (self.ports or WEB_PORTS):
            return False
        if self.host.startswith("*."):
            return target.host.endswith(self.host[1:]) and address_of(target.host) is None
        return target.host == self.host


class NetworkPolicy(Struct, frozen=True):
    """What one sandbox may reach."""

    mode: NetworkMode = NetworkMode.NONE
    rules: tuple[Rule, ...] = ()
    """The allow list."""
    generation: int = 1
    """Counts the policies that the sandbox has had."""

    def __post_init__(self) -> None:
        """Fails with ValueError, which says what is expected."""
        if self.rules and self.mode is not NetworkMode.ALLOW_LIST:
            raise ValueError("rules are for an allow list only")
        if len(self.rules) > MAX_RULES:
            raise ValueError(f"at most {MAX_RULES} rules are taken")

    def rule_for(self, target: Target) -> Rule | None:
        """Returns the rule that allows a target; for an open network it is EVERYTHING."""
        if self.mode is NetworkMode.OPEN:
            return EVERYTHING
        return next((rule for rule in self.rules if rule.matches(target)), None)

    @property
    def is_initial(self) -> bool:
        """Whether the sandbox has never had a network."""
        return self.mode is NetworkMode.NONE and self.generation == 1

    def requires_tls(self, target: Target, rule: Rule) -> bool:
        """Whether a tunnel must use TLS: always, unless the rule names a port other than 443."""
        if rule is EVERYTHING:
            return target.port == 443
        return target.port == 443 or target.port not in rule.ports


def parse_host(text: str) -> str:
    """Returns the normal form of a host; ValueError if it is neither a name nor an address."""
    address = address_of(text)
    if address is not None:
        if "%" in text:
            raise ValueError(f"{text!r}: addresses with a zone are not reached")
        return str(address)
    name = text.lower().removesuffix(".")
    if len(name) > _MAX_NAME_CHARACTERS or not _NAME.fullmatch(name):
        raise ValueError(f"{text[:80]!r} is neither a host's name nor an address")
    if _ENDS_IN_NUMBER.fullmatch(name):
        raise ValueError(f"{name!r} is an address in an unusual form")
    return name


EVERYTHING = Rule("open")
"""The rule for all that an open network allows."""
