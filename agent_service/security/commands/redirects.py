"""Resolves where a command's input comes from and its output goes."""

import re
from collections.abc import Sequence

from msgspec import Struct, field
from msgspec.structs import replace
from tree_sitter import Node

from agent_service.security.commands.invocation import listed, program_name
from agent_service.security.commands.marks import REMOTE, UNKNOWN, without_marks
from agent_service.security.commands.scene import Pipes, Scene
from agent_service.security.commands.words import Words

WORDS = listed(
    "word string raw_string ansi_c_string translated_string concatenation simple_expansion "
    "expansion command_substitution process_substitution number brace_expression "
    "arithmetic_expansion extglob_pattern regex array"
)
"""Types of syntax nodes that are words."""
_NETWORK = re.compile(r"/dev/(?:tcp|udp)/")


def text_of(node: Node) -> str:
    """The text of a node."""
    return (node.text or b"").decode("utf-8", "replace")


def first_names(node: Node) -> frozenset[str]:
    """The names of the programs in a pipeline stage, as written."""
    found = re.findall(r"[\w./+-]+", without_marks(text_of(node)[:400]))
    return frozenset(program_name(word) for word in found)


class Redirects(Struct):
    """The redirections of one command."""

    stdin: str | None = None
    """Text from the command itself; None if there is none."""
    targets: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """Operators and their files."""
    behind: list[Node] = field(default_factory=list[Node])
    """Nodes that read the output although they come before a here-document."""

    @classmethod
    def from_nodes(cls, nodes: Sequence[Node], words: Words) -> "Redirects":
        made = cls()
        for node in nodes:
            match node.type:
                case "file_redirect":
                    made._add_targets(node, words)
                case "herestring_redirect":
                    parts = [words.one(text_of(child)) for child in node.named_children]
                    made.stdin = "".join(parts) + "\n"
                case "heredoc_redirect":
                    made._add_heredoc(node, words)
                case "ERROR":
                    words.fields(text_of(node))
                case _:
                    made.behind.append(node)
        return made

    @property
    def gives(self) -> bool:
        return self.stdin is not None or any(
            "<" in operator and target != "/dev/null" for operator, target in self.targets
        )

    def applied(self, pipes: Pipes, scene: Scene) -> Pipes:
        stdin = pipes.stdin if self.stdin is None else self.stdin
        is_fed = pipes.is_fed or self.stdin is not None
        for operator, target in self.targets:
            scene.note(operator, target)
            if _NETWORK.match(target):
                scene.has_socket = True
                stdin = REMOTE if "<" in operator else stdin
            elif operator == "<&" and scene.has_socket:
                stdin = REMOTE
            elif operator in ("<", "<>"):
                unread = "" if target == "/dev/null" else UNKNOWN
                stdin, is_fed = scene.read(target) or unread, True
        sources = (f"<{target}" for operator, target in self.targets if "<" in operator)
        sinks = (f">{target}" for operator, target in self.targets if ">" in operator)
        return replace(
            pipes,
            stdin=stdin,
            is_fed=is_fed,
            feeds=pipes.feeds.union(sources),
            fed=pipes.fed.union(sinks, *(first_names(node) for node in self.behind)),
        )

    def _add_targets(self, node: Node, words: Words) -> None:
        operator = next((child.type for child in node.children if not child.is_named), ">")
        named = [child for child in node.named_children if child.type in WORDS]
        self.targets += [
            (operator, target) for word in named for target in words.fields(text_of(word))
        ]

    def _add_heredoc(self, node: Node, words: Words) -> None:
        is_quoted, body = False, ""
        for child in node.named_children:
            if child.type == "heredoc_start":
                is_quoted = any(char in text_of(child) for char in "'\"\\")
            elif child.type == "heredoc_body":
                body = text_of(child)
            elif child.type == "file_redirect":
                self._add_targets(child, words)
            elif child.type not in WORDS and child.type not in ("heredoc_end", "comment"):
                self.behind.append(child)
        self.stdin = body if is_quoted else words.quoted(body)
