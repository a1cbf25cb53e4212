"""Parses shell text within a time limit."""

import re
import time

import tree_sitter_bash
from tree_sitter import Language, Node, Parser

from agent_service.security.commands.scene import TooMuch

_SHORT = 2_000
"""Bytes of text that need no time limit, since parsing takes milliseconds."""
_LONGEST_S = 0.3
"""CPU time for one text; long ordinary ones take 0.1."""
_MOST_PIPES = 1_500
"""Bars per pipeline: the grammar takes quadratic time and cannot be interrupted."""
_PIPED_ON = re.compile(r"\|&?[ \t]*\n")
_STATEMENT = re.compile(r"[;\n]")

# bash rejects a redirection without a target.
_DANGLING = re.compile(r"(?<![<>&\\'\"])[<>](?=\s*(?:$|[\n|;)]|<(?![(<])|>(?![(>&|])))")
# bash accepts these and the grammar does not.
_CLOSED = re.compile(r"(\b(?:done|fi|esac)|[)}])(\s*\})")
_LISTED = re.compile(r"(^|[|;&(]\s*)\{([^{}\s;|&,]+(?:,[^{}\s;|&,]*)+)\}")
_BARE_DOLLAR = re.compile(r"(?<!\\)\$(?=[%/:,=.+~\s]|$)")


class ShellParser:
    """A reusable parser of shell text; making one is slow."""

    def __init__(self) -> None:
        self._parser = Parser(Language(tree_sitter_bash.language()))

    def parse(self, text: str) -> Node:
        """The syntax tree, with known grammar gaps worked around; TooMuch if it takes too long."""
        root = self._parse(text)
        if not root.has_error:
            return root
        listed = _LISTED.sub(lambda match: match[1] + match[2].replace(",", " "), text)
        repaired = _BARE_DOLLAR.sub(r"\\$", _CLOSED.sub(r"\1;\2", _DANGLING.sub("", listed)))
        other = self._parse(repaired) if repaired != text else root
        return root if other.has_error else other

    def _parse(self, text: str) -> Node:
        # The grammar hangs on zero bytes, which no shell keeps.
        data = text.replace("\0", "").encode()
        if len(data) <= _SHORT:
            return self._parser.parse(data).root_node
        if any(
            part.count("|") > _MOST_PIPES for part in _STATEMENT.split(_PIPED_ON.sub("|", text))
        ):
            raise TooMuch
        end = time.thread_time() + _LONGEST_S

        def read(offset: int, _: object) -> bytes:
            return data[offset:]

        def is_late(*_: object) -> bool:
            return time.thread_time() > end

        try:
            return self._parser.parse(read, progress_callback=is_late).root_node
        except ValueError as error:
            self._parser.reset()
            raise TooMuch from error
