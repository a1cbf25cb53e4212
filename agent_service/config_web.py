"""The agent's settings of what it fetches and sends."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, SecretStr

from agent_service.security.fetch.destinations import FetchRefused, Origin
from services.config import ConfigModel, Env, Yaml
from services.public_addresses import Network, ranges


def _ranges(texts: tuple[str, ...]) -> tuple[str, ...]:
    try:
        ranges(texts)
    except ValueError:
        raise ValueError("is not a list of address ranges such as 192.168.1.0/24") from None
    return texts


def _url(text: str) -> str:
    try:
        if text:
            Origin.of(text)
    except FetchRefused as refused:
        # It is not repeated, as it may hold a password.
        raise ValueError(f"is not usable: {refused}") from None
    return text.rstrip("/")


_Url = Annotated[str, AfterValidator(_url)]


class FetchConfig(ConfigModel):
    """Where the web tools may go, and what follows from having been there."""

    allow_private_networks: Annotated[
        tuple[str, ...], AfterValidator(_ranges), Yaml("security.allow_private_networks")
    ] = ()
    """Private address ranges that URLs may lead to, such as `192.168.1.0/24`; clouds' metadata
    services stay closed."""
    allow_ports: Annotated[
        tuple[Annotated[int, Field(ge=1, le=65_535)], ...], Yaml("security.allow_ports")
    ] = ()
    """Ports that URLs may name besides 80 and 443."""
    taint: Annotated[Literal["ask", "off"], Yaml("security.taint")] = "ask"
    """`ask` lets a person decide what outlasts or leaves a session that has read what others wrote,
    in the web or in a sandbox that is open to them: memory, skills, messages to other chats, what
    commands send, addresses that are new; `off` asks nobody."""

    @property
    def private(self) -> tuple[Network, ...]:
        """The private networks that are open."""
        return tuple(ranges(self.allow_private_networks))


class SearchConfig(ConfigModel):
    """What searches the web."""

    provider: Annotated[Literal["", "brave", "tavily", "searxng"], Yaml("web.search_provider")] = ""
    """Which of those that are set up is asked first; unset is the first of `brave`, `tavily` and
    `searxng`."""
    brave_api_key: Annotated[SecretStr, Env("BRAVE_API_KEY")] = SecretStr("")
    """Key for the Brave Search API."""
    brave_base_url: Annotated[_Url, Env("BRAVE_BASE_URL")] = "https://api.search.brave.com"
    """Where the Brave Search API is."""
    tavily_api_key: Annotated[SecretStr, Env("TAVILY_API_KEY")] = SecretStr("")
    """Key for Tavily."""
    tavily_base_url: Annotated[_Url, Env("TAVILY_BASE_URL")] = "https://api.tavily.com"
    """Where Tavily is."""
    searxng_url: Annotated[_Url, Yaml("web.searxng_url"), Env("SEARXNG_URL")] = ""
    """Address of a SearXNG whose JSON format is on, also in a private network."""


class MixtureConfig(ConfigModel):
    """The models of a mixture, by their ids at the endpoint of the conversation."""

    references: Annotated[
        tuple[str, ...], Field(max_length=8), Yaml("mixture.reference_models")
    ] = ()
    """Models that each answer the question of a `mixture_of_agents`; unset turns the tool off."""
    aggregator: Annotated[str, Yaml("mixture.aggregator_model")] = ""
    """Model that makes one answer of theirs; unset is the one of the conversation."""
