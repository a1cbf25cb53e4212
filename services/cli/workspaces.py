"""List, copy and delete what sandboxes have as /workspace, and keep snapshots of it."""

import argparse
import asyncio
from collections.abc import Sequence
from datetime import UTC
from functools import partial
from typing import Any

from google.protobuf.timestamp_pb2 import Timestamp

from hermes.executor.v1 import workspace_pb2
from hermes.executor.v1.workspace_pb2_grpc import WorkspaceServiceStub
from services.cli.arguments import Actions
from services.cli.console import complain, print_json, printable, say
from services.cli.executors import TELL_S, Answers, Executor, Executors, executors
from services.cli.standard_input import agreed
from services.cli.startup import load, logged
from services.config import Settings
from services.errors import InvalidArgument
from services.ids import new_id

EXAMPLES = """\
examples:
  hermes workspaces list
  hermes workspaces list --snapshots --json
  hermes workspaces fork wsp_06h00k5s --name experiment
  hermes workspaces snapshot wsp_06h00k5s --name "before the upgrade"
  hermes workspaces fork snp_06h00k7q
  hermes workspaces delete wsp_06h00k5s --yes

A workspace is named by its id, the beginning of it, or its session."""

PAGE = 1000
WORK_S = 3600.0
"""How long a copy or a removal may take while somebody waits for it."""

_UNITS = (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))
_SNAPSHOT = "snp_"

HEADINGS = ("workspace", "size", "limit", "used", "backend", "of", "name")

Kept = workspace_pb2.Workspace | workspace_pb2.Snapshot


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `hermes workspaces`."""
    actions = Actions(parser, "list|fork|delete|snapshot")
    listing = actions.add("list", "the workspaces of a profile, the oldest first")
    which = listing.add_mutually_exclusive_group()
    which.add_argument("--snapshots", action="store_true", help="its snapshots instead")
    which.add_argument("--orphans", action="store_true", help="those that nobody has, instead")
    listing.add_argument("--json", action="store_true", help="one JSON list")
    fork = actions.add("fork", "make a workspace with all that another one or a snapshot has")
    fork.add_argument("source", metavar="SOURCE", help="the workspace or snapshot to copy")
    fork.add_argument("--name", default="", help="a name to know it by")
    fork.add_argument("--json", action="store_true", help="one JSON object")
    delete = actions.add("delete", "remove a workspace or snapshot that nobody uses, for good")
    delete.add_argument("source", metavar="WORKSPACE", help="the workspace or snapshot")
    delete.add_argument("--orphan", action="store_true", help="it is one that nobody has")
    delete.add_argument("--yes", action="store_true", help="do not ask")
    snapshot = actions.add("snapshot", "keep what a workspace has now")
    snapshot.add_argument("source", metavar="WORKSPACE", help="the workspace, as list shows it")
    snapshot.add_argument("--name", default="", help="a name to know it by")
    snapshot.add_argument("--json", action="store_true", help="one JSON object")


def run(arguments: argparse.Namespace) -> int:
    """Lists, copies or removes."""
    settings = load(arguments)
    settings.home.create()
    actions = {"list": _list, "fork": _fork, "delete": _delete, "snapshot": _snapshot}
    with logged(settings, "hermes", settings.home.logs / "hermes.log"):
        return asyncio.run(actions[arguments.action](settings, arguments))


async def _list(settings: Settings, arguments: argparse.Namespace) -> int:
    async with executors(settings) as deployment:
        if arguments.orphans:
            answers = await deployment.ask(_orphans)
        else:
            listed = _snapshots if arguments.snapshots else _workspaces
            answers = await deployment.ask(partial(listed, profile=arguments.profile or ""))
    answers.complain()
    found = sorted(answers.told, key=lambda pair: pair[1].create_time.ToNanoseconds())
    if arguments.json:
        print_json([_described(*pair) for pair in found])
    elif found:
        deployment.print_table(HEADINGS, [(at, _row(at, one)) for at, one in found])
    elif arguments.orphans:
        say("There is none that nobody has.")
    elif arguments.snapshots:
        say("There are no snapshots; take one with: hermes workspaces snapshot WORKSPACE")
    else:
        say("There are no workspaces; a session has one from its first command on.")
    return 0


async def _fork(settings: Settings, arguments: argparse.Namespace) -> int:
    async with executors(settings) as deployment:
        at, source = (await _find(deployment, arguments))[0]
        request = workspace_pb2.ForkWorkspaceRequest(
            request_id=new_id("req"),
            profile=arguments.profile or "",
            source_id=_ident(source),
            name=arguments.name,
        )
        stub = WorkspaceServiceStub(at.channel)
        made = (await stub.ForkWorkspace(request, timeout=WORK_S)).workspace
    if arguments.json:
        print_json(_described(at, made))
    else:
        say(f"{made.workspace_id} has what {_ident(source)} has")
    return 0


async def _snapshot(settings: Settings, arguments: argparse.Namespace) -> int:
    async with executors(settings) as deployment:
        at, source = (await _find(deployment, arguments))[0]
        request = workspace_pb2.CreateSnapshotRequest(
            request_id=new_id("req"),
            profile=arguments.profile or "",
            workspace_id=_ident(source),
            name=arguments.name,
        )
        stub = WorkspaceServiceStub(at.channel)
        made = (await stub.CreateSnapshot(request, timeout=WORK_S)).snapshot
    if arguments.json:
        print_json(_described(at, made))
    else:
        say(f"{made.snapshot_id} keeps what {made.workspace_id} has now")
    return 0


async def _delete(settings: Settings, arguments: argparse.Namespace) -> int:
    async with executors(settings) as deployment:
        found = await _find(deployment, arguments)
        ident = _ident(found[0][1])
        question = f"Delete {ident} and all that is in it?"
        if not arguments.yes and not await agreed(question, "delete it with --yes"):
            complain("nothing was deleted")
            return 1
        for at, one in found:
            await _remove(at, one, arguments.profile or "")
    say(f"{ident} is deleted")
    return 0


async def _remove(at: Executor, one: Kept, profile: str) -> None:
    stub, ident = WorkspaceServiceStub(at.channel), _ident(one)
    if isinstance(one, workspace_pb2.Snapshot):
        snapshot = workspace_pb2.DeleteSnapshotRequest(snapshot_id=ident, profile=profile)
        await stub.DeleteSnapshot(snapshot, timeout=WORK_S)
    else:
        is_orphan = one.state == workspace_pb2.WORKSPACE_STATE_ORPHAN
        workspace = workspace_pb2.DeleteWorkspaceRequest(
            workspace_id=ident, profile=profile, orphan=is_orphan
        )
        await stub.DeleteWorkspace(workspace, timeout=WORK_S)


# ---- which one


async def _find(
    deployment: Executors, arguments: argparse.Namespace
) -> Sequence[tuple[Executor, Kept]]:
    """The one that is meant, at each executor that knows it; else NotFound or InvalidArgument.

    Several know it where they share their workspaces. The one whose sandbox has it, or had it last,
    comes first.
    """
    named = arguments.source
    answers = await _kept(deployment, arguments)
    meant = [
        (at, one)
        for at, one in answers.told
        if _ident(one).startswith(named) or named in _sessions(one)
    ]
    names = {_ident(one) for _, one in meant}
    if not names:
        message = f"there is no workspace or snapshot {named!r}"
        raise answers.nothing(message, "hermes workspaces list")
    if len(names) > 1:
        listed = ", ".join(sorted(names))
        raise InvalidArgument(f"{named!r} may be each of {listed}; say which")
    return sorted(meant, key=lambda pair: _last_use(pair[1]), reverse=True)


async def _kept(deployment: Executors, arguments: argparse.Namespace) -> Answers[Kept]:
    """All that may be meant."""
    if vars(arguments).get("orphan"):
        return await deployment.ask(_orphans)
    listed = _snapshots if arguments.source.startswith(_SNAPSHOT) else _workspaces
    return await deployment.ask(partial(listed, profile=arguments.profile or ""))


def _last_use(one: Kept) -> tuple[bool, int]:
    has_users = isinstance(one, workspace_pb2.Workspace) and bool(one.active_session_ids)
    return has_users, one.use_time.ToNanoseconds()


async def _orphans(at: Executor) -> Sequence[Kept]:
    request = workspace_pb2.ListWorkspacesRequest(orphans=True)
    stub = WorkspaceServiceStub(at.channel)
    return (await stub.ListWorkspaces(request, timeout=TELL_S)).workspaces


async def _workspaces(at: Executor, profile: str) -> Sequence[Kept]:
    stub, found = WorkspaceServiceStub(at.channel), list[Kept]()
    token = ""
    while True:
        request = workspace_pb2.ListWorkspacesRequest(
            profile=profile, page_size=PAGE, page_token=token
        )
        page = await stub.ListWorkspaces(request, timeout=TELL_S)
        found += page.workspaces
        token = page.next_page_token
        if not token:
            return found


async def _snapshots(at: Executor, profile: str) -> Sequence[Kept]:
    stub, found = WorkspaceServiceStub(at.channel), list[Kept]()
    token = ""
    while True:
        request = workspace_pb2.ListSnapshotsRequest(
            profile=profile, page_size=PAGE, page_token=token
        )
        page = await stub.ListSnapshots(request, timeout=TELL_S)
        found += page.snapshots
        token = page.next_page_token
        if not token:
            return found


# ---- how one is shown


def _ident(one: Kept) -> str:
    return one.snapshot_id if isinstance(one, workspace_pb2.Snapshot) else one.workspace_id


def _sessions(one: Kept) -> Sequence[str]:
    return () if isinstance(one, workspace_pb2.Snapshot) else one.session_ids


def _row(at: Executor, one: Kept) -> tuple[str, ...]:
    described = _described(at, one)
    of = described["source_id"] or ", ".join(_sessions(one))
    state = "" if described["state"] in ("ready", "orphan") else f" ({described['state']})"
    return (
        f"{_ident(one)}{state}",
        _size(described["size_bytes"]),
        _size(described["limit_bytes"]) if "limit_bytes" in described else "",
        _local(one.use_time),
        one.backend,
        printable(of),
        printable(one.name),
    )


def _described(at: Executor, one: Kept) -> dict[str, Any]:
    state = workspace_pb2.WorkspaceState.Name(one.state).removeprefix("WORKSPACE_STATE_").lower()
    common: dict[str, Any] = {
        "name": one.name,
        "state": state,
        "backend": one.backend,
        "executor": at.endpoint or None,
        "created_at": one.create_time.ToJsonString() if one.HasField("create_time") else None,
        "used_at": one.use_time.ToJsonString() if one.HasField("use_time") else None,
        "size_bytes": one.size_bytes if one.HasField("size_bytes") else None,
    }
    if isinstance(one, workspace_pb2.Snapshot):
        return {"snapshot_id": one.snapshot_id, "source_id": one.workspace_id, **common}
    return {
        "workspace_id": one.workspace_id,
        "source_id": one.source_id,
        "template": one.template,
        "session_ids": list(one.session_ids),
        "active_session_ids": list(one.active_session_ids),
        "limit_bytes": one.limit_bytes if one.HasField("limit_bytes") else None,
        **common,
    }


def _size(size: int | None) -> str:
    if size is None:
        return "—"
    return next((f"{size / unit:.1f} {name}" for name, unit in _UNITS if size >= unit), f"{size} B")


def _local(moment: Timestamp) -> str:
    if not moment.seconds:
        return "—"
    return f"{moment.ToDatetime(UTC).astimezone():%Y-%m-%d %H:%M}"
