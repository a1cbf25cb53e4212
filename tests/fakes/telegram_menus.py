"""The menus of commands of a bot, as the Bot API keeps them and what it demands of them."""

import json
import re
from typing import Any

from tests.fakes.telegram_rules import Refused

MAX_COMMANDS = 100
MAX_DESCRIPTION = 256
COMMAND = re.compile(r"[a-z0-9_]{1,32}")
METHODS = ("getMyCommands", "setMyCommands")


class Menus:
    """The menu of a bot in private chats."""

    def __init__(self) -> None:
        self._commands: list[dict[str, str]] = []

    @property
    def shown(self) -> list[str]:
        return [each["command"] for each in self._commands]

    def answer(self, method: str, fields: dict[str, str]) -> Any:
        """Answer a call of one of the methods."""
        if json.loads(fields.get("scope", "{}")) != {"type": "all_private_chats"}:
            raise Refused(400, "Bad Request: another scope is expected here")
        if method == "getMyCommands":
            return self._commands
        self._commands = _checked(json.loads(fields["commands"]))
        return True


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
