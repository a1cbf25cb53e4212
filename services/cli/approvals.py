"""List tool calls that wait for approval, and approve or deny them."""

import getpass
from collections.abc import Iterator

from hermes.agent.v1 import approval_pb2 as pb
from hermes.agent.v1.approval_pb2_grpc import ApprovalServiceStub
from services.cli.command import JSON_LIST, JSON_OBJECT, Command, Context, action, arg
from services.cli.output import local_time

EXAMPLES = """\
examples:
  hermes approvals list
  hermes approvals approve apr_trn_06gzq0v2k5t1v9d3c4m8h7w2a0:3
  hermes approvals approve apr_trn_06gzq0v2k5t1v9d3c4m8h7w2a0:3 --for always
  hermes approvals deny apr_trn_06gzq0v2k5t1v9d3c4m8h7w2a0:3"""

_FOR = ("once", "session", "always")


async def _list(context: Context) -> None:
    """List open approvals, the oldest first."""
    request = context.request(pb.ListApprovalsRequest)
    found = (await context.stub(ApprovalServiceStub).ListApprovals(request)).approvals
    text = "\n".join(line for approval in found for line in _block(approval))
    context.print_value(found, text or "There are no open approvals.")


def _block(approval: pb.Approval) -> Iterator[str]:
    until = local_time(approval.expire_time, seconds=True)
    asker = ":".join(filter(None, (approval.platform, approval.requester)))
    yield f"── {approval.approval_id}  {approval.tool}, until {until}"
    yield f"session {approval.session_id}{asker and f', requested by {asker}'}"
    yield from (f"  {line}" for line in approval.subject.splitlines())


async def _decide(context: Context) -> None:
    """Approve a tool call."""
    scope = vars(context.given).get("scope", "deny")
    request = context.request(
        pb.ResolveApprovalRequest,
        decision=f"APPROVAL_DECISION_{scope.upper()}",
        decided_by=f"cli:{getpass.getuser()}",
    )
    answer = await context.stub(ApprovalServiceStub).ResolveApproval(request)
    word = "Denied" if scope == "deny" else f"Approved ({scope})"
    text = f"{word}: {answer.approval.tool} `{answer.approval.subject}`"
    context.print_value(answer.approval, text)


_SESSION = arg("--session ID", "list only approvals of this session", field="session_id")
_ID = arg("ID", "id of the approval, from hermes approvals list", field="approval_id")
_HOW_LONG = "how long the same command stays approved (once)"
_ACTIONS = (
    action(_list, _SESSION, JSON_LIST),
    action(
        _decide,
        _ID,
        arg("--for", _HOW_LONG, field="scope", choices=_FOR, default="once"),
        JSON_OBJECT,
        name="approve",
    ),
    action(_decide, _ID, JSON_OBJECT, name="deny", help="Deny a tool call."),
)
COMMAND = Command(EXAMPLES, _ACTIONS, services=("agent",))
