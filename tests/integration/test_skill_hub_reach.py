"""Hubs whose servers, or whose names, lead elsewhere once they have been looked at."""

from pathlib import Path

import pytest
from aiohttp import web

from agent_service.profiles.skills.files import HomeSkillFiles
from agent_service.profiles.skills.hub import git as git_runs
from agent_service.profiles.skills.hub.hub import Hub, Status
from agent_service.profiles.skills.hub.reach import HubReach
from agent_service.profiles.skills.hub.source import HubFailed, HubRefused
from agent_service.profiles.skills.hub.sources import Sources
from agent_service.security.fetch.destinations import Destinations
from services.rpc.public_addresses import ranges
from tests.fakes.clock import ManualClock
from tests.fakes.web import Handler, Site, site
from tests.integration.test_fetching import Names
from tests.integration.test_skill_hub import install
from tests.support.hubs import ALL, INDEX, NOTES, entry, git_handler, git_site, listing, repository
from tests.support.skills import run

NAME = "hub.localhost"
"""What every resolver of this machine takes for 127.0.0.1."""
VETTED, OTHER, PRIVATE = "127.0.0.2", "127.0.0.1", "127.0.0.3"


def held(tmp_path: Path, names: Names, *running: Site, private: str = f"{VETTED}/32") -> Hub:
    """A library that may go to some sites, whose names mean what the test says."""
    allowed = Destinations(
        private=tuple(ranges((private,))), ports=[each.port for each in running], resolve=names
    )
    files = HomeSkillFiles(tmp_path / "library")
    return Hub(files, Sources(HubReach(allowed), ()), ManualClock())


def test_git_goes_to_the_address_that_was_looked_at_whatever_the_name_means_later(
    tmp_path: Path,
) -> None:
    repository(tmp_path / "served/repo.git", ALL)
    handler = git_handler(tmp_path / "served")

    async def tried() -> None:
        async with site(handler, VETTED) as vetted, site(handler, OTHER, vetted.port) as other:
            url = vetted.url(NAME, "/repo.git")
            outcome = await install(held(tmp_path, Names(VETTED), vetted), url, "notes")
            assert outcome.status is Status.INSTALLED
            assert [each.method for each in vetted.seen].count("POST") >= 1
            assert {each.host for each in vetted.seen} == {f"{NAME}:{vetted.port}"}
            assert other.seen == []
            # The same git that is held to nothing goes where the name leads.
            async with git_runs.repository() as fetching:
                await fetching.fetch(url, "", ())
            assert [each.method for each in other.seen].count("POST") >= 1

    run(tried())


@pytest.mark.parametrize("spelled", ["hub.localhost.", "Hub.LOCALHOST", "HUB.localhost."])
def test_git_is_held_to_the_address_however_the_name_is_spelled(
    tmp_path: Path, spelled: str
) -> None:
    repository(tmp_path / "served/repo.git", ALL)
    handler = git_handler(tmp_path / "served")

    async def tried() -> None:
        async with site(handler, VETTED) as vetted, site(handler, OTHER, vetted.port) as other:
            names = Names(VETTED)
            hub = held(tmp_path, names, vetted)
            outcome = await install(hub, vetted.url(spelled, "/repo.git"), "notes")
            assert outcome.status is Status.INSTALLED, outcome.message
            assert [each.method for each in vetted.seen].count("POST") >= 1
            assert other.seen == []
            assert set(names.asked) == {NAME}

    run(tried())


@pytest.mark.parametrize("looks", [1, 2])
def test_a_name_that_means_another_address_before_git_is_started_is_refused(
    tmp_path: Path, looks: int
) -> None:
    repository(tmp_path / "served/repo.git", ALL)
    handler = git_handler(tmp_path / "served")

    async def tried() -> None:
        async with site(handler, VETTED) as vetted, site(handler, PRIVATE, vetted.port) as inner:
            names = Names(*[VETTED] * looks, PRIVATE)
            url = vetted.url(NAME, "/repo.git")
            with pytest.raises(HubRefused, match="not public"):
                await install(held(tmp_path, names, vetted), url, "notes")
            assert inner.seen == []
            assert {each.method for each in vetted.seen} == {"GET"}
            assert PRIVATE not in str(vetted.paths)

    run(tried())


def _redirects_git(to: Site, served: Handler, *, of_post: bool) -> Handler:
    """What is asked first is answered well; git itself is led elsewhere."""
    asked: list[str] = []

    async def handle(request: web.Request) -> web.StreamResponse:
        asked.append(request.method)
        # The first two requests come from the one who looks, or the second from git.
        if request.method == "POST" if of_post else len(asked) > 1:
            place = to.url(PRIVATE, request.path_qs)
            return web.Response(status=307, headers={"Location": place})
        return await served(request)

    return handle


@pytest.mark.parametrize("of_post", [True, False])
def test_a_server_that_leads_git_itself_elsewhere_is_left(tmp_path: Path, *, of_post: bool) -> None:
    repository(tmp_path / "served/repo.git", ALL)

    async def tried() -> None:
        async with git_site(tmp_path / "served", PRIVATE) as inner:
            handler = _redirects_git(inner, git_handler(tmp_path / "served"), of_post=of_post)
            async with site(handler, VETTED, inner.port) as outer:
                url = outer.url(VETTED, "/repo.git")
                with pytest.raises(HubFailed, match="git says"):
                    await install(held(tmp_path, Names(VETTED), outer), url, "notes")
                methods = [each.method for each in outer.seen]
                assert methods.count("POST") == (1 if of_post else 0)
                assert len(methods) >= 2
            assert inner.seen == []

    run(tried())


def test_a_server_that_turns_dumb_for_git_names_no_other_place_to_read_from(tmp_path: Path) -> None:
    repository(tmp_path / "served/repo.git", ALL)
    smart = git_handler(tmp_path / "served")

    async def tried() -> None:
        async with git_site(tmp_path / "served", PRIVATE) as inner:
            asked: list[str] = []

            async def handle(request: web.Request) -> web.StreamResponse:
                asked.append(request.path_qs)
                if len(asked) == 1:
                    return await smart(request)
                place = inner.url(PRIVATE, "/repo.git/objects/")
                content = {
                    "/repo.git/info/refs": f"{'a' * 40}\trefs/heads/main\n",
                    "/repo.git/HEAD": "ref: refs/heads/main\n",
                    "/repo.git/objects/info/http-alternates": f"{place}\n",
                    "/repo.git/objects/info/alternates": f"{place}\n",
                }
                if request.path not in content:
                    return web.Response(status=404)
                return web.Response(text=content[request.path])

            async with site(handle, VETTED, inner.port) as outer:
                with pytest.raises(HubFailed, match="git says"):
                    await install(
                        held(tmp_path, Names(VETTED), outer),
                        outer.url(VETTED, "/repo.git"),
                        "notes",
                    )
            assert len(asked) > 1
            assert inner.seen == []

    run(tried())


@pytest.mark.parametrize("by_redirect", [False, True])
def test_the_name_of_an_index_is_looked_at_for_each_of_its_files(
    tmp_path: Path, *, by_redirect: bool
) -> None:
    async def handle(request: web.Request) -> web.StreamResponse:
        if by_redirect and request.path == INDEX:
            return web.Response(status=302, headers={"Location": "/other/index.json"})
        if request.path in (INDEX, "/other/index.json"):
            return web.Response(body=listing(entry("notes", NOTES)))
        return web.Response(body=NOTES)

    async def tried() -> None:
        async with site(handle, VETTED) as outer, site(handle, PRIVATE, outer.port) as inner:
            url = outer.url(NAME, INDEX)
            # The first two looks are those of the request, and of what its scheme may reach.
            looked = Names(VETTED)
            outcome = await install(held(tmp_path, looked, outer), url)
            assert outcome.status is Status.INSTALLED
            for count in range(1, len(looked.asked)):
                names = Names(*[VETTED] * count, PRIVATE)
                told = held(tmp_path / str(count), names, outer)
                try:
                    refused = (await install(told, url)).message
                except HubRefused as error:
                    refused = str(error)
                assert "not public" in refused, count
            assert inner.seen == []

    run(tried())
