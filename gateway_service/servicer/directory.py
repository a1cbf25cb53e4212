"""DirectoryService and PlatformService: chats that messages can go to, and accounts."""

from collections.abc import Sequence
from typing import Any

import grpc.aio
from sqlalchemy import Connection

from gateway_service.chats.directory import Directory
from gateway_service.messages import CLI
from gateway_service.storage.channels import Channel, Place
from gateway_service.storage.statuses import AccountStatus
from hermes.gateway.v1 import directory_pb2, directory_pb2_grpc, platform_pb2, platform_pb2_grpc
from services.database import Database
from services.home.paths import DEFAULT_PROFILE
from services.rpc.auth import Identity, allow
from services.rpc.messages import message_of

Context = grpc.aio.ServicerContext[Any, Any]

POLICY = {
    **allow(
        "hermes.gateway.v1.DirectoryService", {"ListChannels": (Identity.AGENT, Identity.OPERATOR)}
    ),
    **allow("hermes.gateway.v1.PlatformService", {"ListPlatforms": (Identity.OPERATOR,)}),
}


class DirectoryServicer(directory_pb2_grpc.DirectoryServiceServicer):
    """Serves the directory."""

    def __init__(self, database: Database, directory: Directory) -> None:
        self._database = database
        self._directory = directory

    async def ListChannels(
        self, request: directory_pb2.ListChannelsRequest, context: Context
    ) -> directory_pb2.ListChannelsResponse:
        profile = request.profile or DEFAULT_PROFILE
        if request.platform not in ("", CLI):
            self._directory.check(request.platform)

        def read(conn: Connection) -> tuple[Sequence[Channel], Sequence[Place]]:
            return self._directory.channels(conn, profile)

        found, homes = await self._database.read(read)
        return directory_pb2.ListChannelsResponse(
            channels=[
                message_of(
                    each,
                    directory_pb2.Channel,
                    target=f"{each.place}",
                    platform=each.place.platform,
                    last_use_time=each.seen_at,
                    is_home=each.place in homes,
                )
                for each in found
                if request.platform in ("", each.place.platform)
            ]
        )


class PlatformServicer(platform_pb2_grpc.PlatformServiceServicer):
    """Serves the status of accounts."""

    def __init__(self, database: Database, directory: Directory) -> None:
        self._database = database
        self._directory = directory

    async def ListPlatforms(
        self, request: platform_pb2.ListPlatformsRequest, context: Context
    ) -> platform_pb2.ListPlatformsResponse:
        found = await self._database.read(self._directory.statuses)
        return platform_pb2.ListPlatformsResponse(accounts=map(_account, found))


def _account(found: AccountStatus) -> platform_pb2.PlatformAccount:
    connection = found.connection
    return message_of(
        found,
        platform_pb2.PlatformAccount,
        state=found.state,
        connect_time=connection.connected_at,
        last_event_time=found.last_event_at,
        rate_limit_end_time=connection.rate_limited_until,
        problem=connection.problem,
    )
