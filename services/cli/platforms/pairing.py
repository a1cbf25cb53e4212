"""List people who ask for access on a platform, give them access, and revoke it.

With `unauthorized_dm_behavior: pair`, a person who is not on a platform's allow list gets a code in
a direct chat. After you approve the code, the person may talk to Hermes.
"""

from hermes.gateway.v1 import pairing_pb2 as pb
from hermes.gateway.v1.pairing_pb2_grpc import PairingServiceStub
from services.cli.command import JSON_LIST, JSON_OBJECT, Command, Context, action, arg, flag
from services.cli.output import Column

EXAMPLES = """\
examples:
  hermes pairing list
  hermes pairing approve ABCD2345
  hermes pairing approve ABCD2345 --admin
  hermes pairing revoke telegram 12345678"""


def _state(pairing: pb.Pairing) -> str:
    if not pairing.HasField("approve_time"):
        return "waiting"
    return "admin" if pairing.is_admin else "approved"


_PAIRING = (
    Column("platform"),
    Column("user", "user_id"),
    Column("name", "user_name"),
    Column("state", _state),
    Column("asked", "request_time"),
    Column("approved", "approve_time"),
    Column("by", "approved_by"),
)


async def _list(context: Context) -> None:
    """List who waits for access, and who has it."""
    request = context.request(pb.ListPairingsRequest)
    found = (await context.stub(PairingServiceStub).ListPairings(request)).pairings
    empty = "Nobody is waiting for access, and nobody has got access by a code."
    context.print_list(found, _PAIRING, empty)


async def _approve(context: Context) -> None:
    """Give a person access."""
    request = context.request(pb.ApprovePairingRequest)
    answer = await context.stub(PairingServiceStub).ApprovePairing(request)
    found = answer.pairing
    name = f"{found.user_name} ({found.user_id})" if found.user_name else found.user_id
    rights = ", with the commands of admins" if found.is_admin else ""
    text = f"{name} may talk to Hermes on {found.platform}{rights}"
    if answer.was_approved:
        text = f"this code was used before; {text}"
    context.print_value(found, text)


async def _revoke(context: Context) -> None:
    """Revoke a person's access, or drop their request."""
    request = context.request(pb.RevokePairingRequest)
    await context.stub(PairingServiceStub).RevokePairing(request)
    text = f"{request.user_id} may no longer talk to Hermes on {request.platform}"
    context.print_value(request, text)


_ACTIONS = (
    action(_list, JSON_LIST),
    action(
        _approve,
        arg("CODE", "the code that the person got"),
        flag("--admin", "also allow the person the commands of admins", field="is_admin"),
        JSON_OBJECT,
    ),
    action(
        _revoke,
        arg("PLATFORM", "the platform, such as telegram"),
        arg("USER", "the platform's id of the person", field="user_id"),
        JSON_OBJECT,
    ),
)
COMMAND = Command(EXAMPLES, _ACTIONS, services=("gateway",))
