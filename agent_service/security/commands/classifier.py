"""Judges a command by parsing it as shell text before it runs."""

import re

from agent_service.security.commands import code
from agent_service.security.commands.families import (
    FAMILIES,
    OF_SESSION,
    SENDS,
    CommandClass,
    Verdict,
)
from agent_service.security.commands.interpreters import language_of
from agent_service.security.commands.invocation import program_name
from agent_service.security.commands.marks import plain
from agent_service.security.commands.parser import ShellParser
from agent_service.security.commands.programs import Programs, judge_redirection
from agent_service.security.commands.rules import RULES
from agent_service.security.commands.rules.base import by_program
from agent_service.security.commands.scene import Scene, TooMuch
from agent_service.security.commands.shell import Shell

_STARTS_ITSELF = re.compile(
    r"\$\{?(?:0|BASH_SOURCE)\}?\"?\s*[&|]\s*\"?\$\{?(?:0|BASH_SOURCE)|"
    r"do\s+(?:\w+\s+-c\s+)?\"?\$\{?0\}?\"?\s*&(?!&)"
)
_TYPED = re.compile(r"\s*([\w./+-]+)(?:[ \t]+-[\w=-]+)*[ \t]*\n(.+)", re.DOTALL)
LONGEST = 65_536
"""Longer commands are not examined."""


class CommandClassifier:
    """Judges commands; make one per process, since its parser and tables are costly."""

    def __init__(self, own: tuple[str, ...] = ()) -> None:
        """`own` is the agent's home if it is not called `.hermes`."""
        self._own = own
        self._parser = ShellParser()
        self._programs = Programs(by_program(RULES))

    def classify(self, command: str, cwd: str = "") -> Verdict:
        """Judge a command that starts in `cwd`; empty if unknown."""
        text = plain(command[: LONGEST + 1])
        shell = Shell(self._parser, self._programs.call, judge_redirection)
        scene = shell.scene
        scene.cwd, scene.own = cwd, self._own
        is_exhausted = len(command) > LONGEST
        if is_exhausted:
            scene.is_broken = True
            text = text[: LONGEST // 8]
        try:
            shell.script(text)
            _judge_typed(scene, text)
            if _STARTS_ITSELF.search(text):
                scene.find("fork-bomb")
        except (RecursionError, TooMuch):
            scene.is_broken = is_exhausted = True
        names = dict.fromkeys(finding.family for finding in scene.findings)
        families = tuple(name for name in FAMILIES if name in names and name != SENDS)
        leaving = [each for each in scene.findings if each.leaves and each.family != SENDS]
        return Verdict(
            _class_of(families, is_broken=scene.is_broken),
            families,
            SENDS in names,
            tuple(scene.addresses),
            # An unparseable command may do more than was found.
            leaves_sandbox=scene.is_broken or bool(leaving),
            reaches_only_files=not scene.is_broken
            and all(each.reach is None and each.family in OF_SESSION for each in leaving),
            normalised=tuple(scene.programs),
            certain=scene.is_certain and not scene.is_broken,
            ends_in=scene.cwd,
            is_exhausted=is_exhausted,
        )


def _judge_typed(scene: Scene, text: str) -> None:
    typed = _TYPED.fullmatch(text)
    if typed is not None and language_of(program_name(typed[1])):
        for finding in code.judge(typed[2]).findings:
            scene.find(finding.family, finding.reach)


def _class_of(families: tuple[str, ...], *, is_broken: bool) -> CommandClass:
    if any(FAMILIES[name].hardline for name in families):
        return CommandClass.HARDLINE
    if families:
        return CommandClass.DANGEROUS
    return CommandClass.UNPARSEABLE if is_broken else CommandClass.SAFE
