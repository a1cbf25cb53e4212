"""The menus of commands of a bot, as the Bot API keeps them and what it demands of them."""

import json
import re
from typing import Any

from tests.fakes.telegram_rules import Refused

MAX_COMMANDS = 100
MAX_DESCRIPTION = 256
COMMAND = re.compile(r"[a-z0-9_]{1,32}")
METHODS = ("getMyCommands", "setMyCommands", "deleteMyCommands")


class Menus:
    """The menus of a bot by the chats that they are for: `private`, or the id of one."""

    def __init__(self) -> None:
        self.shown: dict[str, list[dict[str, str]]] = {}
        self.chats: set[int] = set()
        """Those that there are."""

    def names(self, scope: str = "private") -> list[str]:
        """The commands of a menu."""
        return [each["command"] for each in self.shown.get(scope, [])]

    def answer(self, method: str, fields: dict[str, str]) -> Any:
        """Answer a call of one of the methods."""
        scope = self._scope(fields)
        match method:
            case "getMyCommands":
                return self.shown.get(scope, [])
            case "setMyCommands":
                self.shown[scope] = _checked(json.loads(fields["commands"]))
            case _:
                self.shown.pop(scope, None)
        return True

    def _scope(self, fields: dict[str, str]) -> str:
        scope = json.loads(fields.get("scope", '{"type": "default"}'))
        match scope["type"]:
            case "all_private_chats":
                return "private"
            case "chat" if scope["chat_id"] in self.chats:
                return str(scope["chat_id"])
            case "chat":
                raise Refused(400, "Bad Request: chat not found")
            case _:
                raise Refused(400, f"Bad Request: the scope {scope['type']} is not expected here")


def _checked(commands: list[dict[str, str]]) -> list[dict[str, str]]:
    if len(commands) > MAX_COMMANDS:
        raise Refused(400, "Bad Request: BOT_COMMANDS_TOO_MUCH")
    for each in commands:
        if not COMMAND.fullmatch(each["command"]):
            raise Refused(400, "Bad Request: BOT_COMMAND_INVALID")
        if not 1 <= len(each["description"]) <= MAX_DESCRIPTION:
            raise Refused(400, "Bad Request: BOT_COMMAND_DESCRIPTION_INVALID")
    if len({each["command"] for each in commands}) < len(commands):
        raise Refused(400, "Bad Request: a command is there twice")
    return commands
