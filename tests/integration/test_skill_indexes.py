"""Sites that list skills: both layouts, hostile archives and indexes, and what is exported."""

import io
import json
import stat
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from aiohttp import web

from agent_service.assembly.hubs import exported
from agent_service.profiles.skills.hub.hub import Hub, Outcome, Status
from agent_service.profiles.skills.hub.package import MAX_BYTES, packaged, unpacked
from agent_service.profiles.skills.hub.source import HubRefused, parse_source
from agent_service.profiles.skills.hub.sources import HubSetting
from agent_service.profiles.skills.library import Trust
from tests.fakes.clock import ManualClock
from tests.fakes.web import site
from tests.support.hubs import (
    ALL,
    INDEX,
    NOTES,
    PLAIN,
    SAFE,
    entry,
    hub,
    install,
    library,
    listing,
    made,
    packed,
    pages,
    repository,
    sources,
    write,
)
from tests.support.skills import document, run


def test_an_index_gives_documents_and_archives(tmp_path: Path) -> None:
    archive = packed({f"notes/{path}": text for path, text in SAFE.items()})
    one = document("one", "one file").encode()
    content = {
        INDEX: listing(entry("notes", archive, archive=True), entry("one", one)),
        "/.well-known/agent-skills/notes.tar.gz": archive,
        "/.well-known/agent-skills/one/SKILL.md": one,
    }

    async def tried() -> None:
        async with pages(content) as running:
            settings = HubSetting("acme", parse_source(running.url("127.0.0.1", "")), Trust.TRUSTED)
            to = hub(library(tmp_path), running, hubs=[settings])
            outcome = await install(to, "acme/notes")
            assert (outcome.status, outcome.trust) == (Status.INSTALLED, "trusted")
            assert outcome.source == running.url("127.0.0.1", INDEX)
            direct = await install(to, running.url("127.0.0.1", INDEX), "one")
            assert (direct.status, direct.trust) == (Status.INSTALLED, "trusted")
            changed = document("one", "one file", "Other.", version="1").encode()
            content[INDEX] = listing(entry("notes", archive, archive=True), entry("one", changed))
            content["/.well-known/agent-skills/one/SKILL.md"] = changed
            outcomes = {each.name: each for each in await made(to.update((), PLAIN))}
            assert outcomes["notes"].status is Status.UNCHANGED
            assert outcomes["one"].status is Status.UPDATED
            # Other content under the same version asks.
            again = document("one", "one file", "And other.", version="1").encode()
            content[INDEX] = listing(entry("one", again))
            content["/.well-known/agent-skills/one/SKILL.md"] = again
            (asked,) = await made(to.update(["one"], PLAIN))
            assert asked.status is Status.ASKS
            assert asked.review is not None
            assert [each.family for each in asked.review.findings] == ["same-version"]
            (gone,) = await made(to.update(["notes"], PLAIN))
            assert (gone.status, "no longer there" in gone.message) == (Status.FAILED, True)

    run(tried())
    assert (tmp_path / "skills/notes/references/form.md").read_text() == SAFE["references/form.md"]


def test_an_index_of_the_older_layout_is_read(tmp_path: Path) -> None:
    base = "/.well-known/skills"
    listed = {"name": "notes", "description": "d", "files": list(SAFE)}
    content = {f"{base}/index.json": json.dumps({"skills": [listed]}).encode()}
    content |= {f"{base}/notes/{path}": text.encode() for path, text in SAFE.items()}

    async def tried() -> Outcome:
        async with pages(content) as running:
            return await install(hub(library(tmp_path), running), running.url("127.0.0.1", ""))

    assert run(tried()).status is Status.INSTALLED
    assert (tmp_path / "skills/notes/scripts/count.py").read_text() == SAFE["scripts/count.py"]


def _link() -> bytes:
    member = tarfile.TarInfo("references/a.md")
    member.type, member.linkname = tarfile.SYMTYPE, "/etc/passwd"
    return packed({"SKILL.md": NOTES}, [member])


def _hard_link() -> bytes:
    member = tarfile.TarInfo("references/a.md")
    member.type, member.linkname = tarfile.LNKTYPE, "SKILL.md"
    return packed({"SKILL.md": NOTES}, [member])


def _zip_link() -> bytes:
    found = io.BytesIO()
    with zipfile.ZipFile(found, "w") as archive:
        archive.writestr("SKILL.md", NOTES)
        member = zipfile.ZipInfo("references/a.md")
        member.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(member, "/etc/passwd")
    return found.getvalue()


def _zip_bomb() -> bytes:
    found = io.BytesIO()
    with zipfile.ZipFile(found, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("SKILL.md", NOTES)
        archive.writestr("references/a.md", bytes(MAX_BYTES * 5))
    return found.getvalue()


HOSTILE: list[tuple[Callable[[], bytes], str]] = [
    (lambda: packed({"SKILL.md": NOTES, "../../etc/x": "x"}), "leads elsewhere"),
    (lambda: packed({"SKILL.md": NOTES, "/etc/x": "x"}), "leads elsewhere"),
    (lambda: packed({"SKILL.md": NOTES, "references\\..\\x": "x"}), "leads elsewhere"),
    (lambda: packed({"SKILL.md": NOTES, "references/a\u202e.md": "x"}), "leads elsewhere"),
    (lambda: packed({"SKILL.md": NOTES, "skill.md": "x"}), "twice"),
    (_link, "a link or a device"),
    (_hard_link, "a link or a device"),
    (_zip_link, "has a link"),
    (lambda: packed({"SKILL.md": NOTES, "references/a.md": bytes(MAX_BYTES * 5)}), "unpacks to"),
    (_zip_bomb, "unpacks to"),
    (lambda: packed({"SKILL.md": NOTES, "references/a.md": bytes(1024 * 1024 + 1)}), "1 MiB"),
    (lambda: packed({f"references/{n}.md": "x" for n in range(2100)}), "unpacks to"),
    (
        lambda: packed({"SKILL.md": NOTES, **{f"assets/{n}": "x" for n in range(201)}}),
        "200 at most",
    ),
    (lambda: packed({"references/a.md": "x"}), "has no SKILL.md"),
    (lambda: b"\x1f\x8b" + b"x" * 100, "damaged"),
    (lambda: packed({"SKILL.md": document("other")}), "the skill is called notes"),
    (lambda: packed({"SKILL.md": b"caf\xe9"}), "not UTF-8"),
    (lambda: packed({"SKILL.md": "no frontmatter"}), "begins with frontmatter"),
    (lambda: packed({"SKILL.md": document("notes", "d" * 1025)}), "1,024"),
]


@pytest.mark.parametrize(("make", "why"), HOSTILE)
def test_hostile_archives_are_refused(make: Callable[[], bytes], why: str) -> None:
    with pytest.raises(HubRefused, match=why):
        packaged("notes", unpacked(make(), "notes"))


@pytest.mark.parametrize(
    ("index", "why"),
    [
        (listing({**entry("notes", NOTES), "digest": "sha256:" + "0" * 64}), "not what its index"),
        (listing({**entry("notes", NOTES), "digest": ""}), "no digest"),
        (listing({**entry("notes", NOTES), "type": "exe"}), "not known"),
    ],
)
def test_what_an_index_does_not_vouch_for_is_refused(
    tmp_path: Path, index: bytes, why: str
) -> None:
    content = {INDEX: index, "/.well-known/agent-skills/notes/SKILL.md": NOTES}

    async def tried() -> Outcome:
        async with pages(content) as running:
            return await install(hub(library(tmp_path), running), running.url("127.0.0.1", ""))

    outcome = run(tried())
    assert (outcome.status, why in outcome.message) == (Status.REFUSED, True)


@pytest.mark.parametrize(
    ("index", "why"),
    [
        (b"<html>", "is no index"),
        (b"[" * 200_000, "is no index"),
        (listing(entry("../x", NOTES)), "no name of a skill"),
        (listing(entry("a", NOTES), entry("a", NOTES)), "lists a name twice"),
        (listing(schema="https://evil.example/schema.json"), "not known"),
        (b" " * (2 * 1024 * 1024 + 1), "more than"),
    ],
)
def test_a_bad_index_is_refused_as_a_whole(tmp_path: Path, index: bytes, why: str) -> None:
    async def tried() -> None:
        async with pages({INDEX: index}) as running:
            with pytest.raises(HubRefused, match=why):
                await install(hub(library(tmp_path), running), running.url("127.0.0.1", INDEX))

    run(tried())


@pytest.mark.parametrize("by_redirect", [False, True])
def test_artifacts_in_private_networks_are_not_fetched(
    tmp_path: Path, *, by_redirect: bool
) -> None:
    async def tried() -> Outcome:
        async def handle(request: web.Request) -> web.StreamResponse:
            if request.path == INDEX:
                place = outer.url("127.0.0.1", "/x") if by_redirect else target
                return web.Response(body=listing({**entry("notes", NOTES), "url": place}))
            raise web.HTTPFound(target)

        async with site(secret_page, host="127.0.0.3") as secret, site(handle) as outer:
            target = secret.url("127.0.0.3", "/a")
            reach = sources(private="127.0.0.1/32", ports=[outer.port, secret.port])
            told = Hub(library(tmp_path), reach, ManualClock())
            outcome = await install(told, outer.url("127.0.0.1", INDEX))
            assert secret.seen == []
            assert by_redirect is ("/x" in outer.paths)
            return outcome

    async def secret_page(request: web.Request) -> web.StreamResponse:
        return web.Response(body=NOTES)

    outcome = run(tried())
    assert (outcome.status, "not public" in outcome.message) == (Status.REFUSED, True)


def test_what_is_exported_is_installed_again(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo", {**ALL, "one": {"SKILL.md": document("one")}})
    first = library(tmp_path / "a")
    run(made(hub(first).install(str(repo), ["notes", "one"], PLAIN)))
    shared = run(exported(first, ["notes", "one"], as_index=False))
    write(tmp_path / "shared", shared)
    shared_repo = repository(tmp_path / "shared", {})
    second = library(tmp_path / "b")
    outcomes = run(made(hub(second).install(str(shared_repo), ["notes", "one"], PLAIN)))
    assert {each.status for each in outcomes} == {Status.INSTALLED}
    served = {
        f"/{path}": data
        for path, data in run(exported(first, ["notes", "one"], as_index=True)).items()
    }

    async def from_site() -> list[Outcome]:
        async with pages(served) as running:
            to = hub(library(tmp_path / "c"), running)
            return await made(to.install(running.url("127.0.0.1", ""), ["notes", "one"], PLAIN))

    again = run(from_site())
    assert [each.digest for each in again] == [each.digest for each in outcomes]
    for path in ("notes/SKILL.md", "notes/scripts/count.py", "one/SKILL.md"):
        texts = {(tmp_path / place / "skills" / path).read_bytes() for place in "abc"}
        assert len(texts) == 1
