"""Follows shell text as bash would run it, without running anything."""

import re
from collections.abc import Callable, Sequence

from tree_sitter import Node

from agent_service.security.commands.families import SENDS
from agent_service.security.commands.marks import UNKNOWN, is_known
from agent_service.security.commands.network_clients import leads_away
from agent_service.security.commands.parser import ShellParser
from agent_service.security.commands.paths import is_kept
from agent_service.security.commands.quotes import split_words
from agent_service.security.commands.redirects import WORDS, Redirects, first_names, text_of
from agent_service.security.commands.scene import DEEPEST, NO_PIPES, Pipes, Scene, TooMuch
from agent_service.security.commands.words import Words

Settings = Sequence[tuple[str, str]]
Call = Callable[["Shell", Sequence[str], Pipes, Settings], str]
Written = Callable[[Scene, str, str], None]

_DEEPEST_NODE = 100
_ITEMS = 6
"""Loops with at most this many items are followed item by item, others all at once."""
_NEAR = 64
"""Neighbours in a pipeline that are considered."""
# The grammar's scanner reads past a table of 256 entries for other characters and may crash; none
# of them means anything to the shell.
_WIDE = re.compile("[^\x00-\xff]")
_FILLER = "\xa4"
# Prints nothing, so redirecting it empties a file.
_SAYS_NOTHING = re.compile(
    r"(?:.*(?:&&|\|\||;)\s*)?(?::|true|false|echo\s+-n(?:e?)(?:\s+(?:''|\"\"))?"
    r"|printf\s+(?:--\s+)?(?:''|\"\")|(?:/bin/)?cat\s+/dev/null)",
    re.DOTALL,
)
_REDIRECTS = ("file_redirect", "herestring_redirect", "heredoc_redirect")
_Run = Callable[[Pipes], str]
_PIECES = re.compile(r"[;\n&|]+")
# Settings that disable the shell history.
_UNTRACED = frozenset(
    {("HISTFILE", "/dev/null"), ("HISTFILE", ""), ("HISTSIZE", "0"), ("HISTFILESIZE", "0")}
)


def judge_setting(scene: Scene, name: str, value: str) -> None:
    """Judge that a variable is set for programs."""
    if (name, value) in _UNTRACED:
        scene.find("traces")
    is_untold = "://" in value and not is_known(value)
    if is_untold or leads_away(name, value):
        scene.find(SENDS)


class Shell:
    """Follows the texts of one command."""

    def __init__(self, parser: ShellParser, call: Call, written: Written) -> None:
        self.scene = Scene()
        self.words = Words(self._substituted, self._keep, self.scene.spend)
        self._parser = parser
        self._call = call
        self._written = written
        self._node_depth = 0
        self._is_looping = False
        self._visits: dict[str, Callable[[Node, Pipes], str]] = {
            **dict.fromkeys((*WORDS, "test_command"), self._lone),
            "command": self._command,
            "variable_assignment": self._assignments,
            "variable_assignments": self._assignments,
            "declaration_command": self._declaration,
            "pipeline": self._pipeline,
            "subshell": self._subshell,
            "for_statement": self._for,
            "function_definition": self._function,
            "redirected_statement": self._redirect_statement,
            "unset_command": self._unset,
            **dict.fromkeys(("comment", "heredoc_body"), lambda node, pipes: ""),
        }

    def script(self, text: str, pipes: Pipes = NO_PIPES) -> str:
        scene = self.scene
        if scene.depth >= DEEPEST:
            scene.is_broken = True
            return UNKNOWN
        if not text.strip():
            return ""
        scene.depth += 1
        try:
            return self._run(self._parse(text), pipes)
        finally:
            scene.depth -= 1

    def _parse(self, text: str) -> Node:
        self.scene.spend(len(text))
        text = _WIDE.sub(_FILLER, text)
        try:
            root = self._parser.parse(text)
        except TooMuch:
            self._pieces(text)
            raise
        if root.has_error:
            self.scene.is_broken = True
            self._pieces(text)
        return root

    def _pieces(self, text: str) -> None:
        """Follow text that does not parse piece by piece, for what it may hide."""
        for piece in _PIECES.split(text[:4096])[:64]:
            argv = [field for word in split_words(piece) for field in self.words.fields(word)]
            if argv:
                self._called(argv, NO_PIPES, ())

    def _run(self, node: Node, pipes: Pipes) -> str:
        if self._node_depth >= _DEEPEST_NODE:
            self.scene.is_broken = True
            return UNKNOWN
        self._node_depth += 1
        try:
            return self._visits.get(node.type, self._children)(node, pipes)
        finally:
            self._node_depth -= 1

    def _children(self, node: Node, pipes: Pipes) -> str:
        return "".join([self._run(child, pipes) for child in node.named_children])

    def _subshell(self, node: Node, pipes: Pipes) -> str:
        cwd = self.scene.cwd
        printed = self._children(node, pipes)
        self.scene.cwd = cwd
        return printed

    def _lone(self, node: Node, pipes: Pipes) -> str:
        """A word in place of a command: run only its substitutions."""
        self.words.fields(text_of(node))
        return ""

    def _command(self, node: Node, pipes: Pipes) -> str:
        redirects = [child for child in node.named_children if child.type in _REDIRECTS]
        settings = [
            self._assignment(child)
            for child in node.named_children
            if child.type == "variable_assignment"
        ]
        argv = self._argv(node)
        return self._redirected(redirects, pipes, lambda to: self._called(argv, to, settings))

    def _argv(self, node: Node) -> list[str]:
        """The expanded words of a command; the grammar splits some, so adjacent parts are one."""
        words, end = list[str](), -1
        for child in node.named_children:
            if child.type in _REDIRECTS or child.type == "variable_assignment":
                continue
            if words and child.start_byte == end:
                words[-1] += text_of(child)
            else:
                words.append(text_of(child))
            end = child.end_byte
        return [field for word in words for field in self.words.fields(word)]

    def _called(self, argv: Sequence[str], pipes: Pipes, settings: Settings) -> str:
        if not argv:
            self.words.variables.update(settings)
            return ""
        return self._call(self, argv, pipes, settings)

    def _assignments(self, node: Node, pipes: Pipes) -> str:
        for child in [node] if node.type == "variable_assignment" else node.named_children:
            if child.type == "variable_assignment":
                name, value = self._assignment(child)
                self.scene.note(f"{name}={value}")
                self.words.variables[name] = value
                if name == "PROMPT_COMMAND":
                    self.script(value)
        return ""

    def _assignment(self, node: Node) -> tuple[str, str]:
        text, named = text_of(node), node.child_by_field_name("name")
        written = text.partition("=")[0].removesuffix("+") if named is None else text_of(named)
        name, bracket, index = written.partition("[")
        self.words.fields(index.removesuffix("]"))
        plus = text.startswith("+", len(written))
        value = text[len(written) :].removeprefix("+").removeprefix("=")
        if value.startswith("(") and value.endswith(")"):
            parts = _elements(value[1:-1], self.words)
        else:
            parts = [self.words.one(value)]
        made = " ".join(parts)
        judge_setting(self.scene, name, made)
        if plus or bracket:
            glue = " " if bracket or value.startswith("(") else ""
            made = (self.words.variables.get(name, "") + glue + made).strip()
        return name, made

    def _unset(self, node: Node, pipes: Pipes) -> str:
        return self._called(["unset", *self._argv(node)], pipes, ())

    def _declaration(self, node: Node, pipes: Pipes) -> str:
        self._assignments(node, pipes)
        words = [text_of(child) for child in node.named_children if child.type in WORDS]
        for word in words:
            for field in self.words.fields(word):
                declare(self.scene, self.words, field)
        is_set = any(child.type == "variable_assignment" for child in node.named_children)
        return "" if is_set else UNKNOWN  # it may list the variables

    def _pipeline(self, node: Node, pipes: Pipes) -> str:
        stages = [child for child in node.named_children if child.type != "comment"]
        named = [first_names(stage) for stage in stages]
        output, is_fed = pipes.stdin, pipes.is_fed
        for number, stage in enumerate(stages):
            before = pipes.feeds.union(*named[max(0, number - _NEAR) : number])
            behind = pipes.fed.union(*named[number + 1 : number + 1 + _NEAR])
            output = self._run(stage, Pipes(output, is_fed or number > 0, before, behind))
            is_fed = True
        return output

    def _for(self, node: Node, pipes: Pipes) -> str:
        name, body = node.child_by_field_name("variable"), node.child_by_field_name("body")
        if name is None or body is None:
            return self._children(node, pipes)
        words = [child for child in node.named_children if child.type in WORDS and child != name]
        values = [field for word in words for field in self.words.fields(text_of(word))]
        if self._is_looping or not 1 < len(values) <= _ITEMS:
            values = [" ".join(values) or UNKNOWN]
        was_looping, self._is_looping = self._is_looping, True
        printed = ""
        for value in values:
            self.words.variables[text_of(name)] = value
            printed += self._run(body, pipes)
        self._is_looping = was_looping
        return printed

    def _function(self, node: Node, pipes: Pipes) -> str:
        name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
        if name is None or body is None:
            return ""
        if _multiplies(text_of(name), text_of(body)):
            self.scene.find("fork-bomb")
        self.scene.functions[text_of(name)] = body
        self.scene.calling.append(text_of(name))
        self._run(body, pipes)
        self.scene.calling.pop()
        return ""

    def call_function(self, name: str, args: Sequence[str], pipes: Pipes) -> str:
        scene, variables = self.scene, self.words.variables
        if len(scene.calling) > 6 or scene.calling.count(name):
            return UNKNOWN
        given = {str(number): arg for number, arg in enumerate(args, 1)}
        given.update({"@": " ".join(args), "*": " ".join(args), "#": str(len(args))})
        saved = {key: variables[key] for key in given if key in variables}
        variables.update(given)
        scene.calling.append(name)
        try:
            return self._run(scene.functions[name], pipes)
        finally:
            scene.calling.pop()
            for key in given:
                variables.pop(key, None)
            variables.update(saved)

    def _redirect_statement(self, node: Node, pipes: Pipes) -> str:
        body = node.child_by_field_name("body")
        redirects = [child for child in node.named_children if child != body]
        is_empty = body is None or bool(_SAYS_NOTHING.fullmatch(text_of(body)[-64:].strip()))
        run: _Run = (lambda given: self._run(body, given)) if body else _read_by_itself
        return self._redirected(redirects, pipes, run, is_empty=is_empty)

    def _redirected(
        self, nodes: Sequence[Node], pipes: Pipes, run: _Run, *, is_empty: bool = False
    ) -> str:
        redirects = Redirects.from_nodes(nodes, self.words)
        scene = self.scene
        given = redirects.applied(pipes, scene)
        output = run(given)
        for operator, target in redirects.targets:
            self._written(scene, operator, target)
            if is_empty and not redirects.gives:
                judge_emptied(scene, operator, target)
            if ">" in operator:
                self.write(target, output, append=operator == ">>")
        for each in redirects.behind:
            output = self._run(each, Pipes(output, is_fed=True, feeds=given.feeds))
        return output

    def _substituted(self, text: str) -> str:
        return self.script(text).rstrip("\n")

    def _keep(self, direction: str, text: str) -> str:
        scene = self.scene
        path = f"/dev/fd/{63 + len(scene.files) + len(scene.sinks)}"
        if direction == ">":
            scene.sinks[path] = text
        else:
            scene.files[path] = self.script(text)
        return path

    def write(self, path: str, text: str, *, append: bool = False) -> None:
        """Store what is written to a path, and follow shells that read it."""
        self.scene.write(path, text, append=append)
        if (reader := self.scene.sinks.get(path)) is not None:
            self.script(reader, Pipes(text, is_fed=True))


def judge_emptied(scene: Scene, operator: str, target: str) -> None:
    """Judge that an existing file is emptied."""
    if operator in (">", ">|") and is_kept(target, scene.cwd) and not scene.read(target):
        scene.find("overwrite")


def declare(scene: Scene, words: Words, field: str) -> None:
    """Set the variable that a word of a declaration, such as `export`, names."""
    name, equals, value = field.partition("=")
    if equals and name.isidentifier():
        judge_setting(scene, name, value)
        words.variables[name] = value


def _elements(inner: str, words: Words) -> list[str]:
    inner = re.sub(r"(?:^|(?<=\s))\[\w+\]=", "", inner)
    return [field for word in split_words(inner) for field in words.fields(word)]


def _multiplies(name: str, body: str) -> bool:
    called = re.escape(name)
    itself = re.compile(rf"(?<![\w./-]){called}(?![\w=./-])")
    if re.search(rf"{itself.pattern}\s*\|&?\s*{called}", body):
        return True
    # Commands by their terminators; a single `&` runs one in the background.
    ended = re.split(r"(&&|[;|&\n])", body)
    return any(
        end == "&" and itself.search(command)
        for command, end in zip(ended[::2], ended[1::2], strict=False)
    )


def _read_by_itself(given: Pipes) -> str:
    """The output of a redirection without a program, as in `$(<file)`."""
    return given.stdin if given.is_fed else ""
