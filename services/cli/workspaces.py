"""List, copy and delete what sandboxes have as /workspace, and keep snapshots of it."""

import argparse
import asyncio
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC
from typing import Any

from google.protobuf.timestamp_pb2 import Timestamp

from hermes.executor.v1 import workspace_pb2
from hermes.executor.v1.workspace_pb2_grpc import WorkspaceServiceStub
from services.cli.arguments import Actions
from services.cli.connection import running
from services.cli.console import complain, print_json, printable, say
from services.cli.startup import load, logged
from services.cli.tables import print_table
from services.config import Settings
from services.errors import InvalidArgument, NotFound
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
    async with _service(settings) as stub:
        if arguments.orphans:
            request = workspace_pb2.ListWorkspacesRequest(orphans=True)
            found: Sequence[Kept] = (await stub.ListWorkspaces(request)).workspaces
        elif arguments.snapshots:
            found = await _snapshots(stub, arguments.profile or "")
        else:
            found = await _workspaces(stub, arguments.profile or "")
    if arguments.json:
        print_json([_described(one) for one in found])
    elif found:
        print_table(("workspace", "size", "used", "backend", "of", "name"), list(map(_row, found)))
    elif arguments.orphans:
        say("There is none that nobody has.")
    elif arguments.snapshots:
        say("There are no snapshots; take one with: hermes workspaces snapshot WORKSPACE")
    else:
        say("There are no workspaces; a session has one from its first command on.")
    return 0


async def _fork(settings: Settings, arguments: argparse.Namespace) -> int:
    async with _service(settings) as stub:
        source = await _find(stub, arguments)
        request = workspace_pb2.ForkWorkspaceRequest(
            request_id=new_id("req"),
            profile=arguments.profile or "",
            source_id=_ident(source),
            name=arguments.name,
        )
        made = (await stub.ForkWorkspace(request, timeout=WORK_S)).workspace
    if arguments.json:
        print_json(_described(made))
    else:
        say(f"{made.workspace_id} has what {_ident(source)} has")
    return 0


async def _snapshot(settings: Settings, arguments: argparse.Namespace) -> int:
    async with _service(settings) as stub:
        source = await _find(stub, arguments)
        request = workspace_pb2.CreateSnapshotRequest(
            request_id=new_id("req"),
            profile=arguments.profile or "",
            workspace_id=_ident(source),
            name=arguments.name,
        )
        made = (await stub.CreateSnapshot(request, timeout=WORK_S)).snapshot
    if arguments.json:
        print_json(_described(made))
    else:
        say(f"{made.snapshot_id} keeps what {made.workspace_id} has now")
    return 0


async def _delete(settings: Settings, arguments: argparse.Namespace) -> int:
    async with _service(settings) as stub:
        ident = arguments.source if arguments.orphan else _ident(await _find(stub, arguments))
        if not arguments.yes and not await _agreed(ident):
            complain("nothing was deleted")
            return 1
        profile = arguments.profile or ""
        if ident.startswith(_SNAPSHOT) and not arguments.orphan:
            snapshot = workspace_pb2.DeleteSnapshotRequest(snapshot_id=ident, profile=profile)
            await stub.DeleteSnapshot(snapshot, timeout=WORK_S)
        else:
            workspace = workspace_pb2.DeleteWorkspaceRequest(
                workspace_id=ident, profile=profile, orphan=arguments.orphan
            )
            await stub.DeleteWorkspace(workspace, timeout=WORK_S)
    say(f"{ident} is deleted")
    return 0


async def _agreed(ident: str) -> bool:
    """Whether the person at the terminal wants it."""
    if not sys.stdin.isatty():
        raise InvalidArgument("nobody is here to be asked; delete it with --yes")
    question = f"Delete {ident} and all that is in it? [y/N] "
    return (await asyncio.to_thread(input, question)).strip().lower() in ("y", "yes")


# ---- which one


@asynccontextmanager
async def _service(settings: Settings) -> AsyncGenerator[WorkspaceServiceStub]:
    async with running(settings, "executor") as channels:
        yield WorkspaceServiceStub(channels.to("executor"))


async def _find(stub: WorkspaceServiceStub, arguments: argparse.Namespace) -> Kept:
    """The one that is meant; fails with NotFound or InvalidArgument."""
    profile, named = arguments.profile or "", arguments.source
    found: Sequence[Kept] = await _workspaces(stub, profile)
    if named.startswith(_SNAPSHOT):
        found = await _snapshots(stub, profile)
    meant = [one for one in found if _ident(one).startswith(named) or named in _sessions(one)]
    exact = [one for one in meant if _ident(one) == named] or meant
    if not exact:
        raise NotFound(f"there is no workspace or snapshot {named!r}; see hermes workspaces list")
    if len(exact) > 1:
        names = ", ".join(map(_ident, exact))
        raise InvalidArgument(f"{named!r} may be each of {names}; say which")
    return exact[0]


async def _workspaces(stub: WorkspaceServiceStub, profile: str) -> list[Kept]:
    found: list[Kept] = []
    token = ""
    while True:
        request = workspace_pb2.ListWorkspacesRequest(
            profile=profile, page_size=PAGE, page_token=token
        )
        page = await stub.ListWorkspaces(request)
        found += page.workspaces
        token = page.next_page_token
        if not token:
            return found


async def _snapshots(stub: WorkspaceServiceStub, profile: str) -> list[Kept]:
    found: list[Kept] = []
    token = ""
    while True:
        request = workspace_pb2.ListSnapshotsRequest(
            profile=profile, page_size=PAGE, page_token=token
        )
        page = await stub.ListSnapshots(request)
        found += page.snapshots
        token = page.next_page_token
        if not token:
            return found


# ---- how one is shown


def _ident(one: Kept) -> str:
    return one.snapshot_id if isinstance(one, workspace_pb2.Snapshot) else one.workspace_id


def _sessions(one: Kept) -> Sequence[str]:
    return () if isinstance(one, workspace_pb2.Snapshot) else one.session_ids


def _row(one: Kept) -> tuple[str, ...]:
    described = _described(one)
    of = described["source_id"] or ", ".join(_sessions(one))
    state = "" if described["state"] in ("ready", "orphan") else f" ({described['state']})"
    return (
        f"{_ident(one)}{state}",
        _size(one),
        _local(one.use_time),
        one.backend,
        printable(of),
        printable(one.name),
    )


def _described(one: Kept) -> dict[str, Any]:
    state = workspace_pb2.WorkspaceState.Name(one.state).removeprefix("WORKSPACE_STATE_").lower()
    common: dict[str, Any] = {
        "name": one.name,
        "state": state,
        "backend": one.backend,
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
        **common,
    }


def _size(one: Kept) -> str:
    if not one.HasField("size_bytes"):
        return "—"
    size = one.size_bytes
    return next((f"{size / unit:.1f} {name}" for name, unit in _UNITS if size >= unit), f"{size} B")


def _local(moment: Timestamp) -> str:
    if not moment.seconds:
        return "—"
    return f"{moment.ToDatetime(UTC).astimezone():%Y-%m-%d %H:%M}"
