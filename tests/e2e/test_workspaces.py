"""Workspaces as their operator sees them, while agents use them."""

import pytest

from tests.e2e.deployment import Deployment
from tests.e2e.home import check_complaint


@pytest.fixture
def session(up: Deployment) -> str:
    """A session that has a sandbox."""
    return up.client.ask("who are you")["session_id"]


def test_a_workspace_is_listed_copied_kept_and_deleted(up: Deployment, session: str) -> None:
    client = up.client
    listed = client.run("workspaces", "list", "--json").json
    (found,) = [one for one in listed if session in one["session_ids"]]
    ident = found["workspace_id"]
    assert (found["state"], found["active_session_ids"]) == ("ready", [session])
    assert (
        client.run("sandboxes", "open", session, "--", "sh", "-c", "echo kept > file").status == 0
    )
    shown = client.run("workspaces", "list").out
    assert ident in shown
    assert session in shown
    check_complaint(client.run("workspaces", "delete", ident, "--yes"), "in use by session")
    check_complaint(client.run("workspaces", "delete", ident), "--yes")
    check_complaint(client.run("workspaces", "fork", "wsp_nothing"), "there is no workspace")
    fork = client.run("workspaces", "fork", session, "--name", "other", "--json").json
    assert (fork["source_id"], fork["name"], fork["session_ids"]) == (ident, "other", [])
    assert fork["size_bytes"] > 0
    assert fork["limit_bytes"] == 10 * 2**30
    taken = client.run("workspaces", "snapshot", ident, "--json").json
    assert taken["source_id"] == ident
    snapshot = taken["snapshot_id"]
    assert snapshot in client.run("workspaces", "list", "--snapshots").out
    said = client.run("workspaces", "fork", snapshot).out
    again = said.split()[-1]
    assert said == f"copied {snapshot} to {again}\n"
    for one in (fork["workspace_id"], again, snapshot):
        assert client.run("workspaces", "delete", one, "--yes").out == f"deleted {one}\n"
    left = client.run("workspaces", "list").out
    assert ident in left
    assert again not in left
    assert "no snapshots" in client.run("workspaces", "list", "--snapshots").out
