"""Skills of git repositories: over real HTTP, within bounds, and no further than they may go."""

import asyncio
import os
import time
from pathlib import Path

import pytest
from aiohttp import web

from agent_service.profiles.skills.hub import git as git_runs
from agent_service.profiles.skills.hub.hub import Hub, Status
from agent_service.profiles.skills.hub.source import HubFailed, HubRefused, parse_source
from agent_service.profiles.skills.hub.sources import HubSetting
from agent_service.profiles.skills.library import Trust
from tests.fakes.clock import ManualClock
from tests.fakes.web import site
from tests.support.hubs import (
    ALL,
    PLAIN,
    SAFE,
    committed,
    git,
    git_site,
    hub,
    install,
    library,
    made,
    pages,
    repository,
    sources,
)
from tests.support.skills import document, run


def test_a_repository_is_fetched_over_http_at_a_branch_a_tag_and_a_commit(tmp_path: Path) -> None:
    repo = repository(tmp_path / "served/repo.git", ALL)
    git(repo, "tag", "v1")
    first = git(repo, "rev-parse", "HEAD").strip()
    committed(repo, {"notes": {"assets/two.txt": "2"}})
    git(repo, "branch", "feature/x", "v1")
    second = git(repo, "rev-parse", "HEAD").strip()
    git(repo, "config", "uploadpack.allowAnySHA1InWant", "true")

    async def fetched() -> dict[str, str]:
        versions: dict[str, str] = {}
        async with git_site(tmp_path / "served") as running:
            base = running.url("127.0.0.1", "/repo.git")
            for ref in ("", "@v1", "@feature/x", f"@{first}", "#skills", "@v1#skills/notes"):
                files = library(tmp_path / (ref.replace("/", "_") or "head"))
                outcome = await install(hub(files, running), base + ref, "notes")
                assert outcome.status is Status.INSTALLED
                assert outcome.source == f"git+{base}{ref}"
                versions[ref] = outcome.version
        return versions

    versions = run(fetched())
    assert versions.pop("") == versions.pop("#skills") == second
    assert set(versions.values()) == {first}
    assert (tmp_path / "head/skills/notes/assets/two.txt").read_text() == "2"
    assert not (tmp_path / "@v1/skills/notes/assets").exists()


def test_git_goes_only_where_it_may(tmp_path: Path) -> None:
    repository(tmp_path / "served/repo.git", ALL)

    async def tried() -> None:
        async def turn(request: web.Request) -> web.StreamResponse:
            raise web.HTTPFound(f"http://127.0.0.1:{inner.port}{request.path_qs}")

        async with git_site(tmp_path / "served") as inner, site(turn, host="127.0.0.2") as outer:
            files = library(tmp_path)
            closed = Hub(files, sources(private="", ports=[inner.port]), ManualClock())
            with pytest.raises(HubRefused, match="not public"):
                await install(closed, inner.url("127.0.0.1", "/repo.git"), "notes")
            only = sources(private="127.0.0.2/32", ports=[inner.port, outer.port])
            half_open = Hub(files, only, ManualClock())
            with pytest.raises(HubRefused, match="not public"):
                await install(half_open, outer.url("127.0.0.2", "/repo.git"), "notes")
            assert inner.seen == []
            with pytest.raises(HubRefused, match="port"):
                await install(hub(files), inner.url("127.0.0.1", "/repo.git"), "notes")
            # Where the redirect leads is allowed: it is followed before git is started.
            outcome = await install(
                hub(files, inner, outer), outer.url("127.0.0.2", "/repo.git"), "notes"
            )
            assert outcome.status is Status.INSTALLED
            assert {request.method for request in outer.seen} == {"GET"}

    run(tried())


def test_a_server_that_only_serves_files_is_no_repository(tmp_path: Path) -> None:
    content = {"/repo.git/info/refs": b"0" * 40 + b"\trefs/heads/main\n", "/repo.git/HEAD": b"x"}

    async def tried() -> None:
        async with pages(content) as running:
            with pytest.raises(HubFailed, match="smart protocol"):
                await install(
                    hub(library(tmp_path), running), running.url("127.0.0.1", "/repo.git")
                )

    run(tried())


def test_links_and_submodules_of_a_repository_refuse_the_skill(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo", {"notes": SAFE, "sub": {"SKILL.md": document("sub")}})
    (repo / "skills/notes/references/passwd.md").symlink_to("/etc/passwd")
    head = git(repo, "rev-parse", "HEAD").strip()
    git(repo, "update-index", "--add", "--cacheinfo", f"160000,{head},skills/sub/scripts/m")
    git(repo, "add", "skills/notes")
    git(repo, "commit", "-qm", "links")
    outcomes = run(made(hub(library(tmp_path)).install(str(repo), ["notes", "sub"], PLAIN)))
    assert [each.status for each in outcomes] == [Status.REFUSED] * 2
    assert "a link, 'references/passwd.md'" in outcomes[0].message
    assert "a submodule" in outcomes[1].message


def test_a_tree_that_unfolds_without_end_is_refused(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo", {"notes": SAFE})
    kind, thing, name = "100644 blob", git(repo, "rev-parse", "HEAD:skills/notes/SKILL.md"), "f"
    for _ in range(7):
        lines = "".join(f"{kind} {thing.strip()}\t{name}{n}\n" for n in range(16))
        thing = git(repo, "mktree", said=lines)
        kind, name = "040000 tree", "d"
    commit = git(repo, "commit-tree", "-m", "bomb", thing.strip()).strip()
    git(repo, "update-ref", "refs/heads/main", commit)
    began = time.monotonic()
    with pytest.raises(HubRefused, match="lists more than"):
        run(install(hub(library(tmp_path)), str(repo)))
    assert time.monotonic() - began < 30


def test_git_runs_nothing_that_a_repository_or_a_user_sets_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = tmp_path / "told"
    template = tmp_path / "template/hooks"
    template.mkdir(parents=True)
    for hook in ("post-checkout", "reference-transaction", "post-index-change"):
        (template / hook).write_text(f"#!/bin/sh\necho {hook} >> {told}\n")
        (template / hook).chmod(0o755)
    home = tmp_path / "user"
    home.mkdir()
    settings = f"[init]\ntemplateDir={template.parent}\n[core]\nhooksPath={template}\n"
    (home / ".gitconfig").write_text(settings)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("GIT_TEMPLATE_DIR", str(template.parent))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(home / ".gitconfig"))
    repo = repository(tmp_path / "repo", ALL)
    outcome = run(install(hub(library(tmp_path)), str(repo), "notes"))
    assert outcome.status is Status.INSTALLED
    assert not told.exists()


def test_a_server_that_never_answers_is_left(tmp_path: Path) -> None:
    async def hang(request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(60)
        return web.Response()

    async def slow() -> None:
        async with site(hang) as running, git_runs.repository() as fetching:
            with pytest.raises(HubFailed, match="took longer than 1 s"):
                await fetching.fetch(running.url("127.0.0.1", "/r.git"), "", (), limit_s=1)

    began = time.monotonic()
    run(slow())
    assert time.monotonic() - began < 20


def test_a_repository_that_is_too_large_is_ended(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo", {"notes": {**SAFE, "big.bin": os.urandom(3_000_000)}})

    async def large() -> None:
        async with git_runs.repository(pack_bytes=2_000_000) as fetching:
            with pytest.raises(HubFailed, match="git says"):
                await fetching.fetch(str(repo), "", ())

    run(large())


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("ssh://git@x.io/a.git", "there is no hub"),
        ("ext::sh -c id", "no hub|is no source"),
        ("git+ssh://x.io/a", "is no source"),
        ("https://x.io/a.git@--upload-pack=id", "no branch"),
        ("https://x.io/a.git@a..b", "no branch"),
        ("https://x.io/a.git#../..", "no folder"),
        ("https://x.io/a.git#.git", "no folder"),
        ("nothere/pdf", "there is no hub 'nothere'"),
        ("https://x.io/a b", "is no source"),
    ],
)
def test_sources_that_are_none_are_refused(text: str, why: str) -> None:
    with pytest.raises(HubRefused, match=why):
        sources().resolve(text)


def test_a_source_is_read_from_its_own_text() -> None:
    for text in (
        "git+https://x.io/a.git@v1#b/c",
        "git+https://x.io/a@feature/x",
        "https://x.io/.well-known/skills/index.json",
        "/a/b",
    ):
        assert parse_source(parse_source(text).text) == parse_source(text)


def test_hubs_of_the_settings_are_trusted_by_their_place_alone() -> None:
    setting = HubSetting("acme", parse_source("https://x.io/a.git"), Trust.TRUSTED)
    known = sources(setting)
    assert known.trust(parse_source("https://x.io/a.git")) is Trust.TRUSTED
    for other in ("https://x.io/a.git#b", "https://x.io/b.git", "https://y.io/a.git"):
        assert known.trust(parse_source(other)) is Trust.COMMUNITY
