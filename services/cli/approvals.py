"""See what waits for a decision, and decide it."""

import argparse
import asyncio
import getpass
from datetime import UTC
from typing import Any

from hermes.agent.v1 import approval_pb2, turn_event_pb2
from hermes.agent.v1.approval_pb2_grpc import ApprovalServiceStub
from services.cli.arguments import Actions
from services.cli.connection import connected
from services.cli.console import print_json, printable, say
from services.cli.startup import load, logged
from services.config import Settings

EXAMPLES = """\
examples:
  hermes approvals list
  hermes approvals approve apr_trn_06gzq0v2k5t1v9d3c4m8h7w2a0:3
  hermes approvals approve apr_trn_06gzq0v2k5t1v9d3c4m8h7w2a0:3 --for always
  hermes approvals deny apr_trn_06gzq0v2k5t1v9d3c4m8h7w2a0:3"""

_FOR = {
    "once": turn_event_pb2.APPROVAL_DECISION_ONCE,
    "session": turn_event_pb2.APPROVAL_DECISION_SESSION,
    "always": turn_event_pb2.APPROVAL_DECISION_ALWAYS,
}
_NAMES = {
    **{number: name for name, number in _FOR.items()},
    turn_event_pb2.APPROVAL_DECISION_DENY: "deny",
    turn_event_pb2.APPROVAL_DECISION_EXPIRED: "expired",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `hermes approvals`."""
    actions = Actions(parser, "list|approve|deny")
    listing = actions.add("list", "what waits for a decision, the oldest first")
    listing.add_argument("--session", default="", metavar="ID", help="only of this session")
    listing.add_argument("--json", action="store_true", help="one JSON list")
    approve = actions.add("approve", "allow what is asked")
    approve.add_argument("approval_id", metavar="ID", help="the approval, as list shows it")
    approve.add_argument(
        "--for",
        dest="scope",
        choices=tuple(_FOR),
        default="once",
        help="once (the default), for the session, or always: the very same command only",
    )
    approve.add_argument("--json", action="store_true", help="one JSON object")
    deny = actions.add("deny", "do not allow what is asked")
    deny.add_argument("approval_id", metavar="ID", help="the approval, as list shows it")
    deny.add_argument("--json", action="store_true", help="one JSON object")


def run(arguments: argparse.Namespace) -> int:
    """Lists or decides."""
    settings = load(arguments)
    settings.home.create()
    action = _list if arguments.action == "list" else _decide
    with logged(settings, "hermes", settings.home.logs / "hermes.log"):
        asyncio.run(action(settings, arguments))
    return 0


async def _list(settings: Settings, arguments: argparse.Namespace) -> None:
    request = approval_pb2.ListApprovalsRequest(
        profile=arguments.profile or "", session_id=arguments.session
    )
    async with connected(settings, ("agent",)) as channels:
        answer = await ApprovalServiceStub(channels.to("agent")).ListApprovals(request)
    if arguments.json:
        print_json([_described(approval) for approval in answer.approvals])
        return
    if not answer.approvals:
        say("Nothing waits for a decision.")
    for approval in answer.approvals:
        expires = approval.expire_time.ToDatetime(UTC).astimezone()
        say(f"── {approval.approval_id}  {approval.tool}, until {expires:%Y-%m-%d %H:%M:%S}")
        say(printable(f"session {approval.session_id}{_asker(approval)}"))
        for line in approval.subject.splitlines():
            say(printable(f"  {line}"))


async def _decide(settings: Settings, arguments: argparse.Namespace) -> None:
    deny = turn_event_pb2.APPROVAL_DECISION_DENY
    request = approval_pb2.ResolveApprovalRequest(
        approval_id=arguments.approval_id,
        profile=arguments.profile or "",
        decision=deny if arguments.action == "deny" else _FOR[arguments.scope],
        decided_by=f"cli:{getpass.getuser()}",
    )
    async with connected(settings, ("agent",)) as channels:
        answer = await ApprovalServiceStub(channels.to("agent")).ResolveApproval(request)
    if arguments.json:
        print_json(_described(answer.approval))
    else:
        word = "Denied" if arguments.action == "deny" else f"Allowed ({arguments.scope})"
        say(printable(f"{word}: {answer.approval.tool} `{answer.approval.subject}`"))


def _asker(approval: approval_pb2.Approval) -> str:
    asker = ":".join(filter(None, (approval.platform, approval.requester)))
    return f", asked for by {asker}" if asker else ""


def _described(approval: approval_pb2.Approval) -> dict[str, Any]:
    return {
        "approval_id": approval.approval_id,
        "session_id": approval.session_id,
        "turn_id": approval.turn_id,
        "tool": approval.tool,
        "subject": approval.subject,
        "created_at": approval.create_time.ToJsonString(),
        "expires_at": approval.expire_time.ToJsonString(),
        "decision": _NAMES.get(approval.decision),
        "decided_by": approval.decided_by,
        "requester": approval.requester,
        "platform": approval.platform,
    }
