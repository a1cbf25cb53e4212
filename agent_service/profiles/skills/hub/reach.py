"""Network access for hubs: checked addresses, limited sizes, https except on private networks."""

import asyncio
from collections.abc import Sequence
from ipaddress import ip_address
from urllib.parse import urlsplit, urlunsplit

from agent_service.profiles.skills.hub.source import HubFailed, HubRefused
from agent_service.security.fetch.destinations import (
    Destinations,
    FetchFailed,
    FetchRefused,
    Origin,
)
from agent_service.security.fetch.urls import Fetched, Fetcher, FetchLimits
from services.rpc.public_addresses import AddressVetting

LIMIT_S = 60.0
_ADVERTISEMENT = "application/x-git-upload-pack-advertisement"
_REFS = "/info/refs"


class HubReach:
    """Fetches for hubs."""

    def __init__(self, destinations: Destinations) -> None:
        self._destinations = destinations
        self._fetcher = Fetcher(destinations)
        self._vetting = AddressVetting()

    async def get(self, url: str, most_bytes: int) -> bytes:
        return (await self.fetched(url, most_bytes))[1]

    async def fetched(self, url: str, most_bytes: int) -> tuple[str, bytes]:
        answer = await self._answer(url, most_bytes)
        if answer.status != 200:
            raise HubFailed(f"{url} answers with status {answer.status}")
        if answer.is_cut:
            raise HubRefused(f"{url} has more than {most_bytes:,} bytes")
        return answer.url, answer.data

    async def git_url(self, url: str) -> str | None:
        """Return the URL for git after redirects; None if no repository answers there.

        Only the smart protocol is used: the dumb one follows paths that files of the repository
        name.
        """
        answer = await self._answer(f"{url}{_REFS}?service=git-upload-pack", 64 * 1024)
        if answer.status in (401, 403):
            raise HubFailed(f"{url} wants a login, which hubs are not given")
        if answer.status != 200 or answer.content_type != _ADVERTISEMENT:
            return None
        return _spelled_out(answer.url.partition("?")[0].removesuffix(_REFS))

    async def pinned(self, url: str) -> Sequence[str]:
        origin = Origin.parse(url)
        try:
            found = await self._destinations.addresses(url)
        except FetchRefused as error:
            raise HubRefused(f"{url}: {error}") from None
        except FetchFailed as error:
            raise HubFailed(f"{url}: {error}") from None
        if _is_address(origin.host):
            return []
        listed = ",".join(f"[{each}]" if each.version == 6 else str(each) for each in found)
        return [f"{origin.host}:{origin.port}:{listed}"]

    async def _answer(self, url: str, most_bytes: int) -> Fetched:
        try:
            answer = await self._fetcher.get(url, FetchLimits(most_bytes, LIMIT_S))
            for each in dict.fromkeys((url, answer.url)):
                await self._check_scheme(each)
        except FetchRefused as error:
            raise HubRefused(f"{url}: {error}") from None
        except FetchFailed as error:
            raise HubFailed(f"{url}: {error}") from None
        return answer

    async def _check_scheme(self, url: str) -> None:
        """Allow plain http only in private networks: anybody on the way can change the content."""
        if Origin.parse(url).scheme == "https":
            return
        for address in await self._destinations.addresses(url):
            if await asyncio.to_thread(self._vetting.allows, address):
                raise HubRefused(f"{url} is not fetched without TLS; use https")


def _spelled_out(url: str) -> str:
    """Return the URL with its host in the pinned spelling; git would resolve others, such as one
    with a trailing dot, itself."""
    origin, parts = Origin.parse(url), urlsplit(url)
    host = f"[{origin.host}]" if ":" in origin.host else origin.host
    place = host if parts.port is None else f"{host}:{origin.port}"
    return urlunsplit((origin.scheme, place, parts.path, "", ""))


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
