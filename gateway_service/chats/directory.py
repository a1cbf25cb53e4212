"""The directory: which chats a target such as `telegram:#family` or `home` means.

Targets of the agent's messages, of jobs and of `hermes send` are all resolved here.
"""

import logging
from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace
from sqlalchemy import Connection

from gateway_service.errors import UnknownTarget
from gateway_service.messages import API, CLI, WEBHOOK, Address, Source
from gateway_service.storage import channels
from gateway_service.storage.channels import Channel, Place
from gateway_service.storage.statuses import AccountStatus, read_status

_log = logging.getLogger(__name__)

ORIGIN, HOME, EVERYWHERE = "origin", "home", "all"
LOG = "log"
"""The target of answers that are only kept in their sessions."""
_TERMINAL = Place(CLI, "terminal")
_WHOLE = ("!", "@")
"""Beginnings of chat ids that contain a colon."""
_THREAD = ":$"
"""What separates a thread from such a chat id."""
_MOST_NAMED = 5


class Directory(Struct, frozen=True):
    """The connected platforms, and their home channels."""

    platforms: Mapping[str, str]
    """The account of each platform."""
    homes: Mapping[str, str]
    """The configured home channel of a platform: CHAT, CHAT:THREAD or #NAME."""

    def resolve(
        self, conn: Connection, profile: str, target: str, origin: Place | None
    ) -> Sequence[Place]:
        """Return the chats that a target means, each once; UnknownTarget if there are none.

        `origin` is the chat that the request came from.
        """
        word = target.strip() or ORIGIN
        if word == ORIGIN:
            if origin is None:
                raise _unknown("there is no chat that the request came from; name one")
            return [self._connected(origin)]
        if word in (HOME, EVERYWHERE):
            found = self.home_channels(conn, profile)
            if word == HOME and origin is not None and origin.platform in found:
                return [found[origin.platform]]
            if not found:
                raise _unknown("there is no home channel yet; send /sethome in a chat")
            if word == HOME and len(found) > 1:
                names = " and ".join(found)
                raise _unknown(f"{names} have home channels; name one of these platforms, or all")
            return list(dict.fromkeys(found.values()))
        platform, _, chat = word.partition(":")
        if platform == CLI:
            return [Place(CLI, chat) if chat else _TERMINAL]
        return [self._chat(conn, profile, platform, chat)]

    def _chat(self, conn: Connection, profile: str, platform: str, chat: str) -> Place:
        self.check(platform)
        if platform == WEBHOOK:
            raise _unknown("webhooks bring events and take no messages; name a chat")
        if chat:
            return _find(conn, profile, platform, chat)
        home = self.home_channels(conn, profile).get(platform)
        if home is None:
            raise _unknown(
                f"{platform} has no home channel; send /sethome in one of its chats, set "
                f"platforms.{platform}.extra.home_channel, or name a chat: {platform}:CHAT"
            )
        return home

    def direct(self, conn: Connection, profile: str, source: Source) -> Source:
        """Return the source with the chat that gets the answers, if it is another one."""
        if source.target in ("", LOG):
            return source
        try:
            place, *_ = self.resolve(conn, profile, source.target, None)
        except UnknownTarget as error:
            _log.error("the answer to %s is only kept: %s", source.user_name, error.message)
            return source
        account_id = self.platforms.get(place.platform, "")
        to = Address(profile, place.platform, account_id, place.chat_id, place.thread_id)
        return replace(source, answers_to=to)

    def home_channels(self, conn: Connection, profile: str) -> Mapping[str, Place]:
        """Return the platforms' home channels; one that was chosen overrides the settings."""
        chosen, found = channels.chosen_homes(conn, profile), dict[str, Place]()
        for platform in self.platforms:
            configured = self.homes.get(platform, "").strip()
            if platform in chosen:
                found[platform] = chosen[platform]
            elif configured:
                found[platform] = _find(conn, profile, platform, configured)
        return found

    def channels(self, conn: Connection, profile: str) -> tuple[Sequence[Channel], Sequence[Place]]:
        """Return the chats of connected platforms, last used first, and the home channels."""
        found = channels.list_channels(conn, profile)
        known = [each for each in found if each.place.platform in self.platforms]
        return known, [*self.home_channels(conn, profile).values()]

    def statuses(self, conn: Connection) -> Sequence[AccountStatus]:
        """Return how the accounts are connected."""
        return [read_status(conn, name, account) for name, account in self.platforms.items()]

    def _connected(self, place: Place) -> Place:
        if place.platform == API:
            # Its clients cannot be sent anything; their owner's terminal can.
            return Place(CLI, place.chat_id)
        if place.platform != CLI:
            self.check(place.platform)
        return place

    def check(self, platform: str) -> None:
        """Raise UnknownTarget for a platform that is not connected."""
        if platform not in self.platforms:
            names = ", ".join(sorted((*self.platforms, CLI)))
            raise UnknownTarget(
                f"{platform} is not connected here; there is {names}",
                fields={"target": f"one of {names}"},
            )


def _find(conn: Connection, profile: str, platform: str, chat: str) -> Place:
    """Return the chat that stands behind a platform's name: an id, or `#` and a name."""
    if chat.startswith("#"):
        return _find_named(conn, profile, platform, chat)
    if chat.startswith(_WHOLE):
        chat_id, _, thread = chat.partition(_THREAD)
        return Place(platform, chat_id, thread and f"${thread}")
    chat_id, _, thread = chat.partition(":")
    return Place(platform, chat_id, thread)


def _find_named(conn: Connection, profile: str, platform: str, chat: str) -> Place:
    name = chat.removeprefix("#").casefold()
    known = [
        each for each in channels.list_channels(conn, profile) if each.place.platform == platform
    ]
    found = [each for each in known if each.name.removeprefix("#").casefold() == name]
    if len(found) > 1:
        listed = ", ".join(f"{each.place}" for each in found[:_MOST_NAMED])
        raise _unknown(f"several chats are called {chat}: {listed}")
    if found:
        return found[0].place
    if ":" in chat:
        return Place(platform, chat)  # an alias of Matrix, such as #room:example.org
    names = ", ".join(f"#{each.name}" for each in known if each.name)
    hint = f"there is {names}" if names else "chats are known once somebody writes to Hermes there"
    raise _unknown(f"no chat of {platform} is called {chat}; {hint}")


def _unknown(problem: str) -> UnknownTarget:
    return UnknownTarget(problem, fields={"target": problem})
