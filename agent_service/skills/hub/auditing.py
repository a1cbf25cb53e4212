"""Looks again at skills of a library: whether they are as they came, and what is in them."""

from collections.abc import AsyncGenerator, Sequence

from agent_service.skills.files import SkillFiles
from agent_service.skills.hub.errors import HubRefused
from agent_service.skills.hub.outcomes import Outcome, Status
from agent_service.skills.hub.package import content_digest
from agent_service.skills.hub.scanning import looked_through
from agent_service.skills.hub.shelves import HubShelf, Shelf


async def audited(files: SkillFiles, names: Sequence[str]) -> AsyncGenerator[Outcome]:
    """What is to be said of each skill; of all of hubs where none is named."""
    shelf = HubShelf(files)
    there = await shelf.read()
    for name in names or there.lock.names:
        yield await _audited(shelf, there, name)


async def _audited(shelf: HubShelf, there: Shelf, name: str) -> Outcome:
    entry, found = there.lock.of(name), there.catalogue.find(name)
    if not found or (len(found) > 1 and entry is None):
        if entry is None:
            why = f"there is no skill {name!r}, or there are several"
            return Outcome(name, Status.FAILED, why)
        gone = f"it is gone; `hermes skills update {name}` brings it back"
        return Outcome(name, Status.FAILED, gone, entry.source)
    content = await shelf.content(there, there.folder(name))
    try:
        review = await looked_through(name, content)
    except HubRefused as error:
        return Outcome(name, Status.FAILED, str(error))
    digest = content_digest(content)
    is_changed = entry is not None and digest != entry.content_hash
    return Outcome(
        name=name,
        status=Status.REFUSED if is_changed else Status.UNCHANGED,
        message="it is not as it was installed: somebody has changed it here" if is_changed else "",
        source=entry.source if entry else "",
        version=(entry.commit or entry.version) if entry else "",
        digest=digest,
        trust=entry.trust_level if entry else "",
        review=review,
        files=tuple(content),
    )
