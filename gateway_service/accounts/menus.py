"""The menu of commands that a platform shows: the registry and the skills, for who may say what."""

import logging
from collections.abc import Mapping

from msgspec import Struct

from gateway_service.chats.access import ANYBODY, Access
from gateway_service.commands.base import Chat, CommandContext, offered, shortened
from gateway_service.commands.skills import Skills, command_names, list_skills
from gateway_service.errors import Refused
from gateway_service.messages import Source
from gateway_service.platforms.base import HasMenu, MenuItems
from services.errors import HermesError

_log = logging.getLogger(__name__)

MAX_ITEMS = 100
DESCRIPTION_CHARS = 256
LOOK_S = 300.0
"""How often it is looked whether there are other skills."""
RETRY_S = 10.0


class Menu(Struct, frozen=True):
    """What is offered in chats of two."""

    everybody: MenuItems
    persons: Mapping[str, MenuItems]
    """By the platform's ids of those who are offered something else."""


def menu_of(tools: CommandContext, access: Access, skills: Skills) -> Menu:
    """The menu of an account."""
    # Who is used most comes first, as not all may have a place.
    named = sorted(
        command_names(skills, tools.commands).items(),
        key=lambda one: (-one[1].usage.use_count - one[1].usage.view_count, one[0]),
    )
    skilled = [(name, _short(skill.description or skill.name)) for name, skill in named]

    def items(person: str, given: Access) -> MenuItems:
        chat = Chat("", "", Source("", person, user_id=person), "", given)
        known = [(each.name, _short(each.help)) for each in offered(tools.commands, chat)]
        return tuple([*known, *skilled][:MAX_ITEMS])

    persons = {person: items(person, access) for person in access.persons()}
    if len(persons) == 1 and not access.allow_all:
        return Menu(next(iter(persons.values())), {})
    everybody = items(ANYBODY, Access(frozenset(), True, access.admins, access.allow, access.deny))
    return Menu(everybody, {one: each for one, each in persons.items() if each != everybody})


class MenuKeeper:
    """Has an account show its menu, and again whenever that has changed."""

    def __init__(
        self, platform: HasMenu, access: Access, tools: CommandContext, profile: str
    ) -> None:
        self._platform = platform
        self._access = access
        self._tools = tools
        self._profile = profile

    async def run(self) -> None:
        """Look now and then, until cancelled; whatever goes wrong waits for the next time."""
        shown: Menu | None = None
        while True:
            wait_s = LOOK_S
            try:
                skills = await list_skills(self._tools, self._profile)
                menu = menu_of(self._tools, self._access, skills)
                if menu != shown:
                    await self._show(menu)
                    shown = menu
            except HermesError as error:
                _log.warning("the menu of commands is not shown yet: %s", error)
                wait_s = max(RETRY_S, error.retry_after_s or 0.0)
            await self._tools.clock.sleep(wait_s)

    async def _show(self, menu: Menu) -> None:
        await self._offer("", menu.everybody)
        for person in self._access.persons():
            try:
                await self._offer(person, menu.persons.get(person, ()))
            except Refused as error:
                # Who has never written has no chat that could show anything.
                _log.info("the menu of commands of %s is not shown: %s", person, error)

    async def _offer(self, person: str, items: MenuItems) -> None:
        """Set it where it is another: a start alone changes nothing."""
        if tuple(await self._platform.menu(person)) != items:
            await self._platform.offer(person, items)


def _short(text: str) -> str:
    return shortened(text, DESCRIPTION_CHARS)
