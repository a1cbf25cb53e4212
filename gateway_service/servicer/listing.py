"""The commands that can be said, on the wire."""

from collections.abc import Mapping, Sequence

from gateway_service.clients.skills import SkillInfo
from gateway_service.commands.base import Command
from hermes.gateway.v1 import conversation_pb2


def listed(
    table: Sequence[Command], skills: Mapping[str, SkillInfo]
) -> conversation_pb2.ListCommandsResponse:
    """Commands, and skills by the names of theirs."""
    known = [
        conversation_pb2.SlashCommand(
            name=each.name,
            help=each.help,
            words=[verb.name for verb in each.verbs if verb.name],
        )
        for each in table
    ]
    named = [
        conversation_pb2.SlashCommand(name=name, help=skill.description, skill=skill.path)
        for name, skill in sorted(skills.items())
    ]
    return conversation_pb2.ListCommandsResponse(commands=[*known, *named])
