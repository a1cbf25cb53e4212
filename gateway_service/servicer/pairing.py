"""PairingService: the people who are let in by codes."""

from typing import Any

import grpc.aio

from gateway_service.chats.pairing import Pairings
from gateway_service.storage.pairings import Pairing, Person
from hermes.gateway.v1 import pairing_pb2, pairing_pb2_grpc
from services.home.paths import DEFAULT_PROFILE
from services.rpc.auth import Identity, allow
from services.rpc.messages import message_of

Context = grpc.aio.ServicerContext[Any, Any]

POLICY = allow(
    "hermes.gateway.v1.PairingService",
    dict.fromkeys(("ListPairings", "ApprovePairing", "RevokePairing"), (Identity.OPERATOR,)),
)
_OPERATOR = "cli:operator"


class PairingServicer(pairing_pb2_grpc.PairingServiceServicer):
    """Serves pairings."""

    def __init__(self, pairings: Pairings) -> None:
        self._pairings = pairings

    async def ListPairings(
        self, request: pairing_pb2.ListPairingsRequest, context: Context
    ) -> pairing_pb2.ListPairingsResponse:
        found = await self._pairings.list(request.profile or DEFAULT_PROFILE)
        return pairing_pb2.ListPairingsResponse(pairings=map(_message, found))

    async def ApprovePairing(
        self, request: pairing_pb2.ApprovePairingRequest, context: Context
    ) -> pairing_pb2.ApprovePairingResponse:
        profile, is_admin = request.profile or DEFAULT_PROFILE, request.is_admin
        found = await self._pairings.approve(profile, request.code, _OPERATOR, is_admin=is_admin)
        return pairing_pb2.ApprovePairingResponse(
            pairing=_message(found.pairing), was_approved=not found.is_new
        )

    async def RevokePairing(
        self, request: pairing_pb2.RevokePairingRequest, context: Context
    ) -> pairing_pb2.RevokePairingResponse:
        profile = request.profile or DEFAULT_PROFILE
        person = Person(profile, request.platform, request.user_id)
        await self._pairings.revoke(person, _OPERATOR)
        return pairing_pb2.RevokePairingResponse()


def _message(found: Pairing) -> pairing_pb2.Pairing:
    return message_of(
        found,
        pairing_pb2.Pairing,
        platform=found.person.platform,
        user_id=found.person.user_id,
        request_time=found.requested_at,
        expire_time=found.expires_at,
        approve_time=found.approved_at,
    )
