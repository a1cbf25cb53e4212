"""Which backend is taken, and why."""

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from executor_service.backends import AUTOMATIC, BACKENDS
from executor_service.backends.base import Backend, Capabilities
from executor_service.errors import BackendUnavailable
from executor_service.sandboxes.templates import choose
from services.errors import Reason
from tests.fakes.plain_backend import PlainBackend


@dataclass
class Offer:
    """What a machine offers: the backends by name, and why those that cannot be used cannot."""

    folder: Path
    obstacles: dict[str, str]
    made: list[str] = field(default_factory=list[str])
    closed: list[str] = field(default_factory=list[str])

    def make(self, name: str) -> Backend:
        self.made.append(name)
        return _Offered(self, name)


class _Offered(PlainBackend):
    def __init__(self, offer: Offer, name: str) -> None:
        super().__init__(offer.folder)
        self.name = name
        self._offer = offer

    async def probe(self) -> Capabilities:
        found = await super().probe()
        obstacle = self._offer.obstacles.get(self.name, "")
        return Capabilities(
            self.name, not obstacle, obstacle or "works", found.isolation, found.limits
        )

    async def close(self) -> None:
        self._offer.closed.append(self.name)


async def chosen(offer: Offer, configured: str) -> tuple[str, str]:
    names = (*AUTOMATIC, "elsewhere")
    makers = {name: (lambda name=name: offer.make(name)) for name in names}
    choice = await choose(configured, makers, AUTOMATIC)
    assert isinstance(choice.backend, _Offered)
    assert choice.backend.name == choice.capabilities.name
    assert [other.name for other in choice.others] == offer.made[:-1]
    assert offer.closed == offer.made[:-1]
    return choice.capabilities.name, choice.reason


def test_docker_is_preferred() -> None:
    assert AUTOMATIC == ("docker", "bubblewrap")
    assert set(AUTOMATIC) <= set(BACKENDS)


async def test_the_first_that_works_is_taken(tmp_path: Path) -> None:
    name, reason = await chosen(Offer(tmp_path, {}), "")
    assert (name, reason) == ("docker", "it is the default")
    name, reason = await chosen(Offer(tmp_path, {"docker": "no engine answers"}), "")
    assert (name, reason) == ("bubblewrap", "docker cannot be used (no engine answers)")


async def test_nothing_that_works_is_one_clear_line(tmp_path: Path) -> None:
    offer = Offer(tmp_path, {"docker": "no engine answers", "bubblewrap": "no namespaces"})
    with pytest.raises(BackendUnavailable) as caught:
        await chosen(offer, "")
    assert caught.value.message == (
        "no sandbox backend can be used here: docker: no engine answers; bubblewrap: no namespaces"
    )
    assert caught.value.reason is Reason.BACKEND_UNAVAILABLE
    assert offer.closed == ["docker", "bubblewrap"]


@pytest.mark.parametrize("name", ["bubblewrap", "elsewhere"])
async def test_what_is_configured_is_never_replaced(tmp_path: Path, name: str) -> None:
    offer = Offer(tmp_path, {})
    assert await chosen(offer, name) == (name, "it is configured")
    assert offer.made == [name]
    offer = Offer(tmp_path, {name: "it is broken; mend it"})
    with pytest.raises(BackendUnavailable, match="it is broken; mend it") as caught:
        await chosen(offer, name)
    assert "\n" not in caught.value.message
    assert (offer.made, offer.closed) == ([name], [name])
