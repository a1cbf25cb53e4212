"""The web as a deployment reaches it."""

from msgspec import Struct

from agent_service.config.tools import FetchConfig, SearchConfig
from agent_service.security.fetch.destinations import Destinations
from agent_service.security.fetch.urls import Fetcher
from agent_service.web.search import Search, configured_search


class Web(Struct, frozen=True):
    """What the web tools use."""

    fetcher: Fetcher
    search: Search


def configured_web(fetch: FetchConfig, search: SearchConfig) -> Web:
    """The web as the settings open it."""
    destinations = Destinations(private=fetch.private, ports=fetch.allow_ports)
    return Web(Fetcher(destinations), configured_search(search))
