"""All that commands ask other services."""

from typing import Self

from msgspec import Struct

from gateway_service.clients.calls import ChannelOf
from gateway_service.clients.catalogs import CatalogsClient
from gateway_service.clients.curators import CuratorsClient
from gateway_service.clients.jobs import JobsClient
from gateway_service.clients.memories import MemoriesClient
from gateway_service.clients.sessions import SessionsClient
from gateway_service.clients.skills import SkillsClient
from gateway_service.clients.usage import UsageClient


class Clients(Struct, frozen=True):
    """One client for each noun; each finds its service when it is first asked."""

    skills: SkillsClient
    memories: MemoriesClient
    catalogs: CatalogsClient
    usage: UsageClient
    sessions: SessionsClient
    jobs: JobsClient
    curators: CuratorsClient

    @classmethod
    def over(cls, channel_of: ChannelOf) -> Self:
        """Clients over these channels."""
        return cls(
            SkillsClient(channel_of),
            MemoriesClient(channel_of),
            CatalogsClient(channel_of),
            UsageClient(channel_of),
            SessionsClient(channel_of),
            JobsClient(channel_of),
            CuratorsClient(channel_of),
        )
