"""What an operator sees of executors that share a name, and does with each of them."""

from collections.abc import Iterator
from typing import Any

import grpc.aio
import pytest

from services.errors import Reason, reason_of
from tests.e2e.executor_pair import ExecutorPair, executor_pair
from tests.e2e.home import Result, check_complaint
from tests.e2e.terminal import CTRL_C, terminal

SIGINT_STATUS = 130


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ExecutorPair]:
    """Two for all tests."""
    with executor_pair(tmp_path_factory.mktemp("two"), HERMES_WARM_POOL_SIZE="1") as running:
        yield running


@pytest.fixture
def pair(two: ExecutorPair) -> ExecutorPair:
    """The two, both of which run."""
    two.deployment.start()
    return two


def places(result: Result, name: str) -> dict[str, Any]:
    """Which executor has what, of a list in JSON."""
    assert result.status == 0, result.err
    return {one[name]: one["executor"] for one in result.json}


def doctor(pair: ExecutorPair) -> list[tuple[str, str]]:
    """What doctor says of sandboxes."""
    found = pair.client.run("doctor", "--json").json
    return [(one["verdict"], one["message"]) for one in found if one["check"] == "sandbox"]


def test_it_is_told_which_executor_has_what(pair: ExecutorPair) -> None:
    client, sandboxes = pair.client, [pair.acquire(number, f"told-{number}") for number in (0, 1)]
    listed = client.run("sandboxes", "list", "--json")
    assert listed.err == ""
    assert (
        places(listed, "sandbox_id").items()
        >= dict(zip(sandboxes, pair.endpoints, strict=True)).items()
    )
    heading, *rows = client.run("sandboxes", "list").out.splitlines()
    assert heading.split()[-1] == "executor"
    for sandbox, endpoint in zip(sandboxes, pair.endpoints, strict=True):
        assert [row.split()[-1] for row in rows if sandbox in row] == [endpoint]
    of_both = {*places(client.run("workspaces", "list", "--json"), "workspace_id").values()}
    assert of_both == {*pair.endpoints}
    for endpoint in pair.endpoints:
        assert [verdict for verdict, said in doctor(pair) if endpoint in said] == ["ok"]


def test_what_is_named_is_found_wherever_it_is(pair: ExecutorPair) -> None:
    client = pair.client
    for number in (0, 1):
        session = f"named-{number}"
        sandbox = pair.acquire(number, session)
        wrote = client.run("sandboxes", "open", sandbox, "--", "sh", "-c", "echo it >file; pwd")
        assert (wrote.status, wrote.out, wrote.err) == (0, "/workspace\n", "")
        fork = client.run("workspaces", "fork", session, "--json").json
        assert fork["executor"] == pair.endpoints[number]
        ident = fork["workspace_id"]
        assert client.run("workspaces", "delete", ident, "--yes").out == f"deleted {ident}\n"
        assert client.run("sandboxes", "kill", session, "--yes").status == 0
        ended = client.run("sandboxes", "logs", sandbox)
        assert (ended.status, ended.out.endswith("/workspace\n")) == (0, True)
    check_complaint(client.run("sandboxes", "open", "sbx_none"), "there is no sandbox 'sbx_none'; ")
    check_complaint(client.run("workspaces", "fork", "wsp_none"), "there is no workspace")


def test_one_that_was_killed_takes_nothing_from_the_other(pair: ExecutorPair) -> None:
    client, here, there = pair.client, pair.acquire(0, "left-0"), pair.acquire(1, "left-1")
    pair.servers[1].kill()
    dead = pair.endpoints[1]
    for argv in (["sandboxes", "list"], ["sandboxes", "list", "--json"], ["workspaces", "list"]):
        listed = client.run(*argv)
        assert listed.status == 0
        (line,) = listed.complaints
        assert f"the executor at {dead} does not answer" in line
        assert pair.endpoints[0] in listed.out
    opened = client.run("sandboxes", "open", here, "--", "pwd")
    assert (opened.status, opened.out, opened.err) == (0, "/workspace\n", "")
    check_complaint(client.run("sandboxes", "open", there, "--", "pwd"), "there is no", dead)
    check_complaint(client.run("workspaces", "fork", "left-1"), "there is no", dead)
    assert sorted(verdict for verdict, _ in doctor(pair)) == ["failed", "ok"]
    assert any(dead in said and "hermes serve" in said for _, said in doctor(pair))
    pair.servers[0].kill()
    check_complaint(client.run("sandboxes", "list"), *pair.endpoints)
    pair.deployment.start()
    # The successor has taken it over.
    assert client.run("sandboxes", "open", there, "--", "pwd").out == "/workspace\n"


@pytest.mark.parametrize(
    ("typed", "status", "told"),
    [
        ("y\r", 0, "its workspace stays"),
        ("\r", 1, "nothing was ended"),
        (CTRL_C, SIGINT_STATUS, ""),
    ],
)
def test_who_is_asked_can_agree_refuse_and_leave(
    pair: ExecutorPair, typed: str, status: int, told: str
) -> None:
    sandbox = pair.acquire(1, "asked")
    with terminal(pair.client, "sandboxes", "kill", sandbox) as shown:
        shown.wait_for(r"\(0 running commands\)\? \[y/N\]")
        shown.press(typed)
        assert shown.wait_end() == status
        assert told in shown.screen
        assert "Traceback" not in shown.screen
    is_left = sandbox in places(pair.client.run("sandboxes", "list", "--json"), "sandbox_id")
    assert is_left is (status != 0)


def test_pools_are_listed_and_resized_where_they_are(pair: ExecutorPair) -> None:
    client, (first, second) = pair.client, pair.endpoints
    pair.acquire(0, "pooled")
    before = {one["executor"]: one for one in client.run("pools", "list", "--json").json}
    assert set(before) == {first, second}
    assert (before[first]["template"], before[first]["backend"]) == ("default", "bubblewrap")
    assert before[first]["claimed_count"] >= 1
    assert (before[second]["warm_size"], before[second]["max_size"]) == (1, 32)
    check_complaint(client.run("pools", "resize", "default", "2"), "--executor", first, second)
    check_complaint(client.run("pools", "resize", "none", "2", "--executor", first), "default")
    sizes = ("pools", "resize", "default", "2", "--limit", "20", "--executor", second)
    assert client.run(*sizes).out == "default keeps 2 sandboxes ready (limit 20)\n"
    _, row, other = client.run("pools", "list").out.splitlines()
    assert "of 1" in row
    assert "of 2" in other
    assert other.split()[-1] == second
    alone = client.run("pools", "list", "--executor", second).out.splitlines()
    assert len(alone) == 2
    assert client.run("pools", "resize", "default", "1", "--executor", second).status == 0


def test_a_drained_executor_takes_sessions_again(pair: ExecutorPair) -> None:
    client, (_, second) = pair.client, pair.endpoints
    kept = pair.acquire(1, "drained")
    check_complaint(client.run("pools", "drain"), "--executor", second)
    check_complaint(client.run("pools", "drain", "--executor", "nobody"), "no executor 'nobody'")
    said = client.run("pools", "drain", "--executor", second).out
    assert said.startswith(f"{second} is drained; ")
    notes = [said for verdict, said in doctor(pair) if verdict == "note"]
    assert [said.partition(" it ")[0] for said in notes] == [f"{second}: drained:"]
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        pair.acquire(1, "too-late")
    assert reason_of(refused.value) is Reason.DRAINING
    assert client.run("sandboxes", "open", kept, "--", "pwd").out == "/workspace\n"
    assert client.run("pools", "undrain", "--executor", second, "--json").json == {
        "executor": second
    }
    assert pair.acquire(1, "in-time")
