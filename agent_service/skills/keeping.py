"""What a person does to whole skills: pin them, put them away, bring them back."""

import asyncio
from collections.abc import Sequence

from agent_service.skills.document import BadSkill, is_name, own_name
from agent_service.skills.files import FileRefused
from agent_service.skills.library import MAX_LIST_BYTES, USAGE, Library, Skill
from agent_service.skills.names import ARCHIVE, DOCUMENT
from agent_service.skills.usage import SkillState, Usage, UsageFile, timestamp
from services.clock import Clock
from services.errors import AlreadyExists, NotFound


class SkillKeeping:
    """Changes one library as its owner wants it."""

    def __init__(self, library: Library, clock: Clock) -> None:
        self._library = library
        self._files = library.files
        self._clock = clock

    async def pin(self, skill: Skill, *, is_pinned: bool) -> None:
        """Have a skill stay as it is, or not."""
        async with self._files.locked():
            usage = UsageFile.parse(await self._files.read(USAGE, MAX_LIST_BYTES))
            before = usage.of(skill.name)
            if before.pinned is not is_pinned:
                await self._put(usage, skill.name, before.with_pin(is_pinned=is_pinned))

    async def archive(self, skill: Skill) -> str:
        """Put a skill away; returns where it is kept."""
        async with self._files.locked():
            now = self._clock.now()
            there = await self.archived()
            stamped = f"{skill.name}-{now:%Y%m%d%H%M%S}"
            target = skill.name if skill.name not in there else stamped
            await self._files.move(skill.folder, f"{ARCHIVE}/{target}")
            usage = UsageFile.parse(await self._files.read(USAGE, MAX_LIST_BYTES))
            before = usage.of(skill.name)
            await self._put(
                usage, skill.name, before.archived(timestamp(now), skill.folder, target)
            )
        return f"{ARCHIVE}/{target}"

    async def restore(self, folder: str) -> str:
        """Bring a skill back into its category; returns its name, which is that of its folder."""
        async with self._files.locked():
            there = await self.archived()
            if folder not in there:
                known = ", ".join(there) or "nothing"
                raise NotFound(f"the archive has no skill {folder!r}; it has {known}")
            name = await self._name(folder)
            if (await self._library.catalogue()).find(name):
                raise AlreadyExists(f"there is a skill {name} already; put that one away first")
            usage = UsageFile.parse(await self._files.read(USAGE, MAX_LIST_BYTES))
            before = usage.of(name)
            category = await self._category(before.archived_from.get(folder, ""))
            await self._files.move(f"{ARCHIVE}/{folder}", f"{category}/{name}".lstrip("/"))
            after = before.without(folder)
            if before.state is SkillState.ARCHIVED:
                after = after.restored(timestamp(self._clock.now()))
            if after != before:
                await self._put(usage, name, after)
        return name

    async def _category(self, noted: str) -> str:
        """The category of which that is noted; none where it is no category, or a skill by now."""
        is_one = all(map(is_name, noted.split("/")))
        is_skill = is_one and f"{noted}/{DOCUMENT}" in await self._files.tree()
        return noted if is_one and not is_skill else ""

    async def _put(self, usage: UsageFile, name: str, record: Usage) -> None:
        usage.put(name, record)
        await self._files.write(USAGE, usage.encoded())

    async def archived(self) -> Sequence[str]:
        """The folders of the archive that are skills."""
        tree = await self._files.tree()
        parts = (path.split("/") for path in tree if path.startswith(f"{ARCHIVE}/"))
        return sorted({each[1] for each in parts if len(each) == 3 and each[2] == DOCUMENT})

    async def _name(self, folder: str) -> str:
        """What a skill of the archive is called, whose folder may have got a time behind it."""
        try:
            text = await self._library.text(f"{ARCHIVE}/{folder}/{DOCUMENT}")
        except FileRefused as error:
            raise BadSkill(f"{folder} cannot be brought back: {error}") from None
        named = await asyncio.to_thread(own_name, text)
        return named if is_name(named) and folder.startswith(named) else folder
