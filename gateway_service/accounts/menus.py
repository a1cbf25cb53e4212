"""The command menu of a platform: the commands and skills, the most used first."""

from gateway_service.commands.base import CommandContext, Places, shorten
from gateway_service.commands.skills import command_names, list_skills
from gateway_service.platforms.base import HasMenu, MenuItems
from services.database.queue import poll

MAX_ITEMS = 100
DESCRIPTION_CHARS = 256
LOOK_S = 300.0
"""How often the menu is checked for new skills."""
RETRY_S = 10.0


class MenuKeeper:
    """Keeps an account's menu up to date, which is the same for all who may talk."""

    def __init__(self, platform: HasMenu, context: CommandContext, profile: str) -> None:
        self._platform = platform
        self._context = context
        self._profile = profile

    async def run(self) -> None:
        await poll("the menu of commands", self._look, retry_s=RETRY_S)

    async def _look(self) -> float:
        items = await self._items()
        # Set only if it differs, so that restarts change nothing.
        if tuple(await self._platform.menu()) != items:
            await self._platform.offer(items)
        return LOOK_S

    async def _items(self) -> MenuItems:
        commands, skills = self._context.commands, await list_skills(self._context, self._profile)
        named = sorted(
            command_names(skills, commands).items(),
            key=lambda one: (-one[1].usage.use_count - one[1].usage.view_count, one[0]),
        )
        texts = [(each.name, each.help) for each in commands if each.places & Places.PRIVATE]
        texts += [(name, skill.description or skill.name) for name, skill in named]
        return tuple((name, shorten(text, DESCRIPTION_CHARS)) for name, text in texts[:MAX_ITEMS])
