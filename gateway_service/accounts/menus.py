"""Command menus of platforms: the commands and skills that each person may use."""

import logging
from collections.abc import Mapping

from msgspec import Struct

from gateway_service.chats.access import ANYBODY, Access
from gateway_service.commands.base import Chat, CommandContext, list_offered, shorten
from gateway_service.commands.skills import Skills, command_names, list_skills
from gateway_service.errors import Refused
from gateway_service.messages import Source
from gateway_service.platforms.base import HasMenu, MenuItems
from services.database.queue import poll

_log = logging.getLogger(__name__)

MAX_ITEMS = 100
DESCRIPTION_CHARS = 256
LOOK_S = 300.0
"""How often the menu is checked for new skills."""
RETRY_S = 10.0


class Menu(Struct, frozen=True):
    """The menu in private chats."""

    everybody: MenuItems
    persons: Mapping[str, MenuItems]
    """Different menus, by the platform's user id."""


def build_menu(context: CommandContext, access: Access, skills: Skills) -> Menu:
    """Return the menu of an account."""
    # Most used first, because the platform may limit the number.
    named = sorted(
        command_names(skills, context.commands).items(),
        key=lambda one: (-one[1].usage.use_count - one[1].usage.view_count, one[0]),
    )
    skilled = [(name, _short(skill.description or skill.name)) for name, skill in named]

    def items(person: str, given: Access) -> MenuItems:
        chat = Chat("", "", Source("", person, user_id=person), "", given)
        known = [(each.name, _short(each.help)) for each in list_offered(context.commands, chat)]
        return tuple([*known, *skilled][:MAX_ITEMS])

    persons = {person: items(person, access) for person in access.persons()}
    if len(persons) == 1 and not access.allow_all:
        return Menu(next(iter(persons.values())), {})
    everybody = items(ANYBODY, Access(frozenset(), True, access.admins, access.allow, access.deny))
    return Menu(everybody, {one: each for one, each in persons.items() if each != everybody})


class MenuKeeper:
    """Keeps an account's menu up to date."""

    def __init__(
        self, platform: HasMenu, access: Access, context: CommandContext, profile: str
    ) -> None:
        self._platform = platform
        self._access = access
        self._context = context
        self._profile = profile
        self._shown: Menu | None = None

    async def run(self) -> None:
        await poll("the menu of commands", self._look, retry_s=RETRY_S)

    async def _look(self) -> float:
        skills = await list_skills(self._context, self._profile)
        menu = build_menu(self._context, self._access, skills)
        if menu != self._shown:
            await self._show(menu)
            self._shown = menu
        return LOOK_S

    async def _show(self, menu: Menu) -> None:
        await self._offer("", menu.everybody)
        for person in self._access.persons():
            try:
                await self._offer(person, menu.persons.get(person, ()))
            except Refused as error:
                # A person who never wrote has no chat to show it in.
                _log.info("the menu of commands of %s is not shown: %s", person, error)

    async def _offer(self, person: str, items: MenuItems) -> None:
        """Set a menu only if it differs, so that restarts change nothing."""
        if tuple(await self._platform.menu(person)) != items:
            await self._platform.offer(person, items)


def _short(text: str) -> str:
    return shorten(text, DESCRIPTION_CHARS)
