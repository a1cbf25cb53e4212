"""Secrets that commands use and never see.

A command finds a placeholder in its environment. If it sends that in a header field to a host that
the secret belongs to, the executor replaces it with the value, outside the box.
"""

import asyncio
import base64
import binascii
import hmac
import re
import ssl
from collections.abc import Iterable, Mapping
from pathlib import Path

from msgspec import Struct

from executor_service.errors import EgressRefused
from executor_service.network.tls import Authority
from executor_service.records.network_policy import Rule, Target
from services.home.texts import decode_text

_MOST_CONTEXTS = 64
"""Kept for one sandbox; a wildcard rule matches any number of hosts."""
_VALUE = re.compile(r"[\x21-\x7e]{1,8192}")
_BASIC = re.compile(r"(?P<scheme>basic +)(?P<given>[A-Za-z0-9+/]+=*)", re.IGNORECASE)


class Secret(Struct, frozen=True):
    """A secret of the settings."""

    name: str
    """Also the variable in which commands find its placeholder."""
    file: Path
    """The file with the value; it is read each time, so it can be replaced."""
    hosts: tuple[Rule, ...]

    def belongs_to(self, target: Target) -> bool:
        return any(rule.matches(target) for rule in self.hosts)

    def value(self) -> str:
        """The value; reads a file, so call it in a thread. Fails with EgressRefused."""
        try:
            value = decode_text(self.file.read_bytes()).strip()
        except (OSError, UnicodeDecodeError):
            value = ""
        if not _VALUE.fullmatch(value):
            problem = f"the executor has no usable value of the secret {self.name}"
            raise EgressRefused("secret_unusable", problem)
        return value


class SandboxSecrets:
    """The secrets that one sandbox's commands may use."""

    def __init__(self, secrets: Iterable[Secret], key: bytes) -> None:
        """`key` is secret and the sandbox's own for its whole life."""
        self._key = key
        self._secrets = {secret.name: secret for secret in secrets}
        self._authority: Authority | None = None
        self._contexts: dict[str, ssl.SSLContext] = {}

    @property
    def names(self) -> list[str]:
        return sorted(self._secrets)

    def placeholder(self, name: str) -> str:
        """The placeholder of a secret in this sandbox; that of another one cannot be guessed."""
        digest = hmac.digest(self._key, b"placeholder " + name.encode(), "sha256")
        return f"hermes-{name.lower().replace('_', '-')}-{digest.hex()[:40]}"

    def belonging_to(self, target: Target) -> list[Secret]:
        return [secret for secret in self._secrets.values() if secret.belongs_to(target)]

    async def authority(self) -> str:
        """The certificate of the sandbox's own authority, in PEM form; empty without secrets."""
        if not self._secrets:
            return ""
        return (await self._get_authority()).certificate

    async def context(self, host: str) -> ssl.SSLContext:
        """The TLS context that poses as a host to commands."""
        found = self._contexts.get(host)
        if found is None:
            authority = await self._get_authority()
            found = await asyncio.to_thread(authority.context, host)
            if len(self._contexts) >= _MOST_CONTEXTS:
                self._contexts.pop(next(iter(self._contexts)))
            self._contexts[host] = found
        return found

    async def put_into(
        self, fields: Iterable[tuple[str, str]], secrets: Iterable[Secret]
    ) -> list[tuple[str, str]]:
        """Returns a request's fields with placeholders replaced by values."""
        plain = list(fields)
        said = "\n".join(_plain(value) for _, value in plain)
        wanted = [secret for secret in secrets if self.placeholder(secret.name) in said]
        values = {
            self.placeholder(secret.name): await asyncio.to_thread(secret.value)
            for secret in wanted
        }
        return [
            (name, value if name.lower() == "host" else _replaced(value, values))
            for name, value in plain
        ]

    async def _get_authority(self) -> Authority:
        if self._authority is None:
            rules = [rule for secret in self._secrets.values() for rule in secret.hosts]
            names = [rule.host.removeprefix("*.") for rule in rules]
            self._authority = await asyncio.to_thread(Authority, self._key, names)
        return self._authority


def _plain(value: str) -> str:
    """A field's value, with decoded basic authentication appended."""
    found = _BASIC.fullmatch(value)
    return value if found is None else f"{value}\n{_decoded(found['given'])}"


def _replaced(value: str, values: Mapping[str, str]) -> str:
    found = _BASIC.fullmatch(value)
    given = _decoded(found["given"]) if found else ""
    if found and any(placeholder in given for placeholder in values):
        inside = _replaced_in(given, values).encode("latin-1")
        return found["scheme"] + base64.b64encode(inside).decode()
    return _replaced_in(value, values)


def _replaced_in(text: str, values: Mapping[str, str]) -> str:
    for placeholder, value in values.items():
        text = text.replace(placeholder, value)
    return text


def _decoded(text: str) -> str:
    try:
        return base64.b64decode(text, validate=True).decode("latin-1")
    except binascii.Error:
        return ""
