"""List, fork and delete workspaces, and take snapshots of them."""

from collections.abc import Sequence
from functools import partial

from hermes.executor.v1 import workspace_pb2
from hermes.executor.v1.workspace_pb2_grpc import WorkspaceServiceStub
from services.cli.command import (
    JSON_LIST,
    JSON_OBJECT,
    YES,
    Command,
    Context,
    action,
    arg,
    flag,
    pages,
)
from services.cli.console import say
from services.cli.output import Column, enum_word
from services.cli.sandboxes.executors import TELL_S, Executor, Executors, at_executors, json_of
from services.ids import new_id

EXAMPLES = """\
examples:
  hermes workspaces list
  hermes workspaces list --snapshots --json
  hermes workspaces fork wsp_06h00k5s --name experiment
  hermes workspaces snapshot wsp_06h00k5s --name "before the upgrade"
  hermes workspaces fork snp_06h00k7q
  hermes workspaces delete wsp_06h00k5s --yes

Give a workspace by its id, the beginning of its id, or its session."""

PAGE = 1000
WORK_S = 3600.0
"""The timeout of a copy or removal."""

_SNAPSHOT = "snp_"
_NONE = {
    "workspaces": "There are no workspaces. A session gets one with its first command.",
    "snapshots": "There are no snapshots. Take one with: hermes workspaces snapshot WORKSPACE",
}

Kept = workspace_pb2.Workspace | workspace_pb2.Snapshot


def _ident(one: Kept) -> str:
    return one.snapshot_id if isinstance(one, workspace_pb2.Snapshot) else one.workspace_id


def _sessions(one: Kept) -> Sequence[str]:
    return () if isinstance(one, workspace_pb2.Snapshot) else one.session_ids


def _with_state(one: Kept) -> str:
    word = enum_word(workspace_pb2.WorkspaceState, one.state)
    return _ident(one) if word == "ready" else f"{_ident(one)} ({word})"


_COMMON = (Column("backend"), Column("name"))
WORKSPACE = (
    Column("workspace", _with_state),
    Column("size", "size_bytes"),
    Column("limit", "limit_bytes"),
    Column("used", "use_time"),
    Column("of", lambda one: one.source_id or one.session_ids),
    *_COMMON,
)
SNAPSHOT = (
    Column("snapshot", _with_state),
    Column("size", "size_bytes"),
    Column("used", "use_time"),
    Column("of", "workspace_id"),
    *_COMMON,
)


@at_executors
async def _list(context: Context, deployment: Executors) -> None:
    """List the workspaces of a profile, the oldest first."""
    kind = "snapshots" if context.given.snapshots else "workspaces"
    told = await deployment.ask(partial(_all, context, kind))
    told.sort(key=lambda pair: pair[1].create_time.ToNanoseconds())
    columns = SNAPSHOT if kind == "snapshots" else WORKSPACE
    deployment.print_list(context, told, columns, _NONE[kind])


@at_executors
async def _fork(context: Context, deployment: Executors) -> None:
    """Copy a workspace or a snapshot to a new workspace."""
    at, one = (await _find(context, deployment))[0]
    kind, source = workspace_pb2.ForkWorkspaceRequest, _ident(one)
    request = context.request(kind, request_id=new_id("req"), source_id=source)
    made = (await _stub(at).ForkWorkspace(request, timeout=WORK_S)).workspace
    sentence = f"copied {source} to {made.workspace_id}"
    context.print_value(json_of(at, made), sentence)


@at_executors
async def _snapshot(context: Context, deployment: Executors) -> None:
    """Take a snapshot of a workspace."""
    at, one = (await _find(context, deployment))[0]
    kind, source = workspace_pb2.CreateSnapshotRequest, _ident(one)
    request = context.request(kind, request_id=new_id("req"), workspace_id=source)
    made = (await _stub(at).CreateSnapshot(request, timeout=WORK_S)).snapshot
    sentence = f"took snapshot {made.snapshot_id} of {made.workspace_id}"
    context.print_value(json_of(at, made), sentence)


@at_executors
async def _delete(context: Context, deployment: Executors) -> None:
    """Delete a workspace or snapshot permanently; it must not be in use."""
    found = await _find(context, deployment)
    ident = _ident(found[0][1])
    question = f"Delete {ident} and its files?"
    await context.confirm(question, "use --yes", "nothing was deleted")
    for at, one in found:
        if isinstance(one, workspace_pb2.Snapshot):
            request = context.request(workspace_pb2.DeleteSnapshotRequest, snapshot_id=ident)
            await _stub(at).DeleteSnapshot(request, timeout=WORK_S)
        else:
            deletion = context.request(workspace_pb2.DeleteWorkspaceRequest, workspace_id=ident)
            await _stub(at).DeleteWorkspace(deletion, timeout=WORK_S)
    say(f"deleted {ident}")


async def _find(context: Context, deployment: Executors) -> Sequence[tuple[Executor, Kept]]:
    """Find the named item at each executor that knows it; raises NotFound or InvalidArgument.

    Executors may share workspaces. The one that has or last had it in a sandbox comes first.
    """
    named: str = context.given.source
    kind = "snapshots" if named.startswith(_SNAPSHOT) else "workspaces"
    told = await deployment.ask(partial(_all, context, kind))
    what, see = "workspace or snapshot", "hermes workspaces list"
    found = deployment.pick(named, told, _ident, _sessions, what=what, see=see)
    return sorted(found, key=lambda pair: _last_use(pair[1]), reverse=True)


def _last_use(one: Kept) -> tuple[bool, int]:
    has_users = isinstance(one, workspace_pb2.Workspace) and bool(one.active_session_ids)
    return has_users, one.use_time.ToNanoseconds()


async def _all(context: Context, kind: str, at: Executor) -> Sequence[Kept]:
    if kind == "snapshots":
        wanted = context.request(workspace_pb2.ListSnapshotsRequest, page_size=PAGE)
        found = pages(_stub(at).ListSnapshots, wanted, TELL_S)
        return [one async for page in found for one in page.snapshots]
    request = context.request(workspace_pb2.ListWorkspacesRequest, page_size=PAGE)
    found = pages(_stub(at).ListWorkspaces, request, TELL_S)
    return [one async for page in found for one in page.workspaces]


def _stub(at: Executor) -> WorkspaceServiceStub:
    return WorkspaceServiceStub(at.channel)


_NAME = arg("--name", "name of the snapshot", default="")
COMMAND = Command(
    EXAMPLES,
    actions=(
        action(_list, flag("--snapshots", "list snapshots instead"), JSON_LIST),
        action(_fork, arg("SOURCE", "workspace or snapshot to copy"), _NAME, JSON_OBJECT),
        action(_delete, arg("WORKSPACE", "workspace or snapshot to delete", field="source"), YES),
        action(
            _snapshot,
            arg("WORKSPACE", "id or session of the workspace", field="source"),
            _NAME,
            JSON_OBJECT,
        ),
    ),
)
