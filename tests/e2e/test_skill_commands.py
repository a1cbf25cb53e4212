"""Skills of others, as a person and a script have them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from tests.e2e.backends import sandboxed
from tests.e2e.deployment import one_process, running
from tests.e2e.home import Home
from tests.e2e.model import ModelProcess
from tests.e2e.terminal import terminal
from tests.support.hubs import ALL, SAFE, committed, git, repository


class Shop(Struct, frozen=True):
    """A running Hermes, and the repository that is its hub."""

    home: Home
    repo: Path

    @property
    def head(self) -> str:
        """The commit that the hub has."""
        return git(self.repo, "rev-parse", "HEAD").strip()

    @property
    def library(self) -> Path:
        """Where the skills are."""
        return self.home.path / "skills"

    def skills(self, *argv: str | Path, status: int = 0) -> Any:
        """What a command says as JSON."""
        result = self.home.run("skills", *argv, "--json")
        assert (result.status, result.complaints) == (status, []), result.out
        return result.json


@pytest.fixture(scope="module")
def shop(model: ModelProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    """Commands beside a running `hermes up` with a hub."""
    folder, repo = tmp_path_factory.mktemp("up"), tmp_path_factory.mktemp("hub") / "repo"
    hubs = [{"name": "shop", "url": str(repository(repo, ALL)), "trust": "trusted"}]
    config = {**sandboxed("bubblewrap"), "skills": {"hubs": hubs}}
    with running(one_process(folder, model.url, config)) as started:
        yield Shop(started.client, repo)


def test_a_skill_is_found_installed_updated_shared_and_removed(shop: Shop, tmp_path: Path) -> None:
    offered = shop.skills("search", "writes", "NOTES")
    assert offered["silent"] == []
    assert [each["name"] for each in offered["skills"]] == ["notes"]
    source, first = f"git+{shop.repo}", shop.head
    (installed,) = shop.skills("install", "shop/notes")
    expected = {
        "name": "notes", "status": "installed", "source": source, "version": first,
        "trust": "trusted", "verdict": "safe",
    }  # fmt: skip
    assert {name: installed[name] for name in expected} == expected
    assert not installed["findings"]
    assert _list(shop) == {"notes": ("hub", "trusted", source)}

    committed(shop.repo, {"notes": {"references/form.md": "two lines each\n"}})
    form = shop.library / "notes/references/form.md"
    assert form.read_text() == SAFE["references/form.md"]
    updated = shop.home.run("skills", "update", "--all")
    assert shop.head != first
    assert updated.out == f"updated notes (trusted, safe, {shop.head[:12]})\n"
    assert (updated.status, form.read_text()) == (0, "two lines each\n")

    shared = tmp_path / "shared"
    told = shop.skills("export", "notes", "--to", shared)
    assert told == {"folder": str(shared), "files": sorted(f"notes/{path}" for path in SAFE)}
    removed = shop.skills("remove", "notes")
    assert removed["message"] == "it is kept in .archive/notes"
    assert (shop.library / ".archive/notes/references/form.md").read_text() == "two lines each\n"
    assert not (shop.library / "notes").exists()
    shop.skills("install", repository(shared, {}), "notes")
    assert _list(shop) == {"notes": ("hub", "community", f"git+{shared}")}
    assert {path: (shop.library / "notes" / path).read_bytes() for path in SAFE} == {
        path: (shared / "notes" / path).read_bytes() for path in SAFE
    }

    assert [each["status"] for each in shop.skills("audit")] == ["unchanged"]
    form.write_text("as I like it\n")
    (audited,) = shop.skills("audit", status=1)
    assert audited["message"] == "it is not as it was installed: somebody has changed it here"


def test_what_is_dangerous_is_refused_and_what_asks_is_asked_for(shop: Shop) -> None:
    refused = shop.home.run("skills", "install", "shop/helper", "--yes")
    assert refused.status == 1
    assert "helper is dangerous and is not installed, whoever accepts it" in refused.out
    assert "\n  dangerous scripts/go.sh:2: " in refused.out
    assert not (shop.library / "helper").exists()
    unasked = shop.home.run("skills", "install", "shop/setup")
    assert unasked.status == 1
    assert "\n  caution SKILL.md:6: " in unasked.out
    assert "use --yes to accept the findings" in unasked.out
    with terminal(shop.home, "skills", "install", "shop/setup") as asked:
        assert "caution SKILL.md:6: " in asked.wait_for("Install setup anyway")
        asked.type("n")
        asked.wait_for("not accepted setup")
        assert asked.wait_end() == 1
    assert not (shop.library / "setup").exists()
    (accepted,) = shop.skills("install", "shop/setup", "--yes")
    assert (accepted["status"], accepted["verdict"]) == ("installed", "caution")
    assert {(each["path"], each["line"]) for each in accepted["findings"]} == {("SKILL.md", 6)}
    assert (shop.library / "setup/SKILL.md").exists()


def _list(shop: Shop) -> dict[str, tuple[str, str, str]]:
    listed = shop.skills("list")
    return {each["name"]: (each["origin"], each["trust"], each["source"]) for each in listed}
