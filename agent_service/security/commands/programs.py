"""Follows a program call: the step that ties the judging of commands together."""

import re
from collections.abc import Mapping, Sequence
from fnmatch import translate
from functools import partial
from itertools import chain, islice

from msgspec.structs import replace

from agent_service.security.commands import code
from agent_service.security.commands.builtins import (
    BUILTINS,
    judge_origin,
    quoted,
    run_shell,
    run_stdin,
    run_text,
    run_with_arguments,
    try_text,
)
from agent_service.security.commands.families import SENDS
from agent_service.security.commands.interpreters import POWERSHELLS, SHELLS, code_of, language_of
from agent_service.security.commands.invocation import Invocation, listed, program_name
from agent_service.security.commands.marks import REMOTE, UNKNOWN, is_known, without_marks
from agent_service.security.commands.network_clients import new_addresses, sends
from agent_service.security.commands.outputs import FETCHERS, output_of
from agent_service.security.commands.paths import (
    is_below,
    is_credential,
    is_critical,
    is_device,
    is_trace,
    replaced_family,
)
from agent_service.security.commands.rules import effects
from agent_service.security.commands.rules.base import Rule, holds
from agent_service.security.commands.runners import FED_BY_FILES, RUNNERS, fed_by_files, with_items
from agent_service.security.commands.scene import MOST_STARTED, Pipes, Reach, Scene
from agent_service.security.commands.shell import Settings, Shell, judge_setting
from agent_service.security.commands.wrappers import WRAPPERS, is_wrapper, unwrap

_RUN_LATER = listed(
    "PROMPT_COMMAND BASH_ENV ENV PERL5OPT PERL5DB PYTHONSTARTUP RUBYOPT LESSOPEN LESSCLOSE "
    "GIT_SSH_COMMAND GIT_EXTERNAL_DIFF GIT_PAGER PAGER MANPAGER EDITOR VISUAL SUDO_EDITOR "
    "SYSTEMD_EDITOR BROWSER RESTIC_PASSWORD_COMMAND SSH_ASKPASS AUTOM4TE CC SHELLOPTS PS4 PS1"
)
"""Variables whose values programs run."""
_WORDS = re.compile(r"[\s;|&$`]")
_SCRIPT = re.compile(r"\./|[^\s*]+\.(?:sh|py|js|ts|rb|pl)$")
_PLAIN = listed(
    "echo printf true false : test [ ls pwd cat grep man which type help info apropos cd let sleep "
    "wait jobs exit return break continue local shift umask ulimit dirs getopts bind complete "
    "compgen git docker podman kubectl npm yarn pnpm pip cargo go apt apt-get dnf yum brew aws "
    "gcloud az systemctl logger notify-send figlet cowsay tldr alias export read rg sed awk jq"
)
_SERVICE_SCRIPTS = ("/etc/init.d/", "/etc/rc.d/")
_MOST_GUESSES = 6
_LONGEST_NAME = 256
"""Longest pattern that is matched with program names."""
_CALL = 50
"""Base cost of judging a program."""
_ARGUMENT = 25
"""Base cost of judging an argument."""
_CODE = 4
"""Cost of a character of program text."""
_SKIMMED = 8
"""Characters of input and output that cost as much as one of a word."""


class Programs:
    """Follows program calls with one table of rules."""

    def __init__(self, rules: Mapping[str, tuple[Rule, ...]]) -> None:
        self._rules = rules

    def call(self, shell: Shell, argv: Sequence[str], pipes: Pipes, settings: Settings) -> str:
        scene = shell.scene
        scene.note(*argv)
        for setting in settings:
            scene.note("=".join(setting))
        if pipes.stdin:
            scene.note("<<", pipes.stdin)
        if scene.started >= MOST_STARTED:
            scene.is_broken = True
            return UNKNOWN
        scene.started += 1
        try:
            output = self._called(shell, argv, pipes, settings)
        finally:
            scene.started -= 1
        scene.spend(len(output) // _SKIMMED)
        return output

    def _called(self, shell: Shell, argv: Sequence[str], pipes: Pipes, settings: Settings) -> str:
        scene = shell.scene
        for name, value in settings:
            if name in _RUN_LATER:
                text = scene.read(value) or (value if _WORDS.search(value) else "")
                run_text(shell, text.removeprefix("|").lstrip("-"), Pipes())
        if argv[0].startswith(_SERVICE_SCRIPTS):
            argv = ["service", program_name(argv[0]), *argv[1:]]
        invocation = Invocation(
            name=program_name(argv[0]),
            args=tuple(argv[1:]),
            stdin=pipes.stdin,
            cwd=scene.cwd,
            feeds=pipes.feeds,
            fed=pipes.fed,
            settings=tuple(settings),
            is_fed=pipes.is_fed,
            guesses=frozenset(shell.words.fallbacks),
        )
        judge_origin(scene, argv[0])
        if (handled := self._defined(shell, argv, invocation, pipes)) is not None:
            return handled
        if not is_known(argv[0]) or (set(invocation.name) & set("*?[") and invocation.name != "["):
            self._guess(shell, argv, invocation, pipes)
        return self._known(shell, invocation, pipes)

    def _defined(
        self, shell: Shell, argv: Sequence[str], invocation: Invocation, pipes: Pipes
    ) -> str | None:
        scene, name = shell.scene, argv[0]
        if name in scene.functions:
            return shell.call_function(name, argv[1:], pipes)
        if name in scene.aliases and scene.calling.count(name) == 0:
            scene.calling.append(name)
            try:
                return run_text(shell, f"{scene.aliases[name]} {quoted(argv[1:])}", pipes)
            finally:
                scene.calling.pop()
        if "/" in name and (text := scene.read(name)):
            return run_with_arguments(shell, text, argv, pipes)
        return None

    def _guess(
        self, shell: Shell, argv: Sequence[str], invocation: Invocation, pipes: Pipes
    ) -> None:
        """Judge a program with a partly unknown name by every name that fits."""
        pattern = re.sub(r"\*+", "*", program_name(argv[0].replace(UNKNOWN, "*")))
        scene = shell.scene
        if not pattern.strip("*?") or len(pattern) > _LONGEST_NAME:
            if _looks_destructive(invocation):
                scene.find("hidden-command")
            return
        named = filter(re.compile(translate(pattern)).match, chain(self._rules, SHELLS))
        fitting = list(islice(named, _MOST_GUESSES))
        before = len(scene.findings)
        for name in fitting:
            self._known(shell, replace(invocation, name=name), pipes)
        if len(scene.findings) > before or (fitting and _looks_destructive(invocation)):
            scene.find("hidden-command")

    def _known(self, shell: Shell, invocation: Invocation, pipes: Pipes) -> str:
        scene, name, args = shell.scene, invocation.name, invocation.args
        scene.spend(_CALL + len(args) * _ARGUMENT + sum(map(len, args)))
        scene.spend(len(pipes.stdin) // _SKIMMED)
        if scene.files and name in FED_BY_FILES:
            invocation = fed_by_files(invocation, scene)
            judge_origin(scene, invocation.stdin if "make" in name else "")
        self._judge(scene, invocation)
        builtin = BUILTINS.get(name)
        if builtin is not None:
            output = builtin(shell, invocation, pipes)
            if output is not None:
                return output
        if name in SHELLS:
            return run_shell(shell, invocation, pipes)
        if name in RUNNERS:
            self._run_arguments(shell, invocation, pipes)
        if is_wrapper(invocation):
            return self._wrapped(shell, invocation, pipes)
        if language_of(name):
            self._interpret(shell, invocation, pipes)
        elif name not in _PLAIN and name not in self._rules:
            self._try_inner(shell, invocation, pipes)
        output = output_of(invocation, scene)
        if name == "base64" and is_known(output) and output.strip():
            scene.decoded.add(output.strip())
        return output

    def _judge(self, scene: Scene, invocation: Invocation) -> None:
        for rule in (*self._rules.get(invocation.name, ()), *self._rules["*"]):
            if holds(rule, invocation):
                scene.find(rule.family, rule.reach)
        for family in filter(None, effects.write_families(invocation)):
            scene.find(family)
        if effects.touches_own(invocation, scene.own):
            scene.find("own-config")
        if sends(invocation):
            scene.find(SENDS)
        scene.addresses.update(dict.fromkeys(new_addresses(invocation)))

    def _wrapped(self, shell: Shell, invocation: Invocation, pipes: Pipes) -> str:
        inner = unwrap(invocation, partial(self._knows, shell.scene))
        argvs, scripts = list(map(list, inner.argvs)), list(inner.scripts)
        for name, value in inner.settings:
            judge_setting(shell.scene, name, value)
        if invocation.name == "coproc" and FETCHERS & set(map(program_name, invocation.args)):
            shell.scene.has_socket = True
        if invocation.name in ("xargs", "gxargs", "parallel"):
            argv, scripts = with_items(invocation, argvs[0] if argvs else [], scripts)
            argvs = [argv] if argv else []
        output = ""
        for script in scripts:
            output += run_text(shell, script, pipes)
        for argv in argvs:
            output += self.call(shell, argv, pipes, inner.settings)
        if not argvs and not scripts and invocation.name in _TO_SHELL:
            output = run_stdin(shell, pipes) or UNKNOWN
        if invocation.name in _ELSEWHERE:
            for finding in list(shell.scene.findings):
                shell.scene.find(finding.family, Reach.OUTSIDE)
        if invocation.name in FETCHERS:
            return REMOTE
        return output or pipes.stdin or UNKNOWN

    def _knows(self, scene: Scene, word: str) -> bool:
        name = program_name(word)
        known = (self._rules, SHELLS, WRAPPERS, _PLAIN)
        is_listed = name[:1].isalnum() and any(name in names for names in known)
        return is_listed or bool(language_of(name) or scene.read(word) or _SCRIPT.match(word))

    def _run_arguments(self, shell: Shell, invocation: Invocation, pipes: Pipes) -> None:
        for found in RUNNERS[invocation.name](invocation):
            if isinstance(found, str):
                run_text(shell, found, pipes)
            elif found:
                self.call(shell, found, pipes, ())

    def _try_inner(self, shell: Shell, invocation: Invocation, pipes: Pipes) -> None:
        """Judge an unknown program's words as if it ran them; keeps only the worst findings."""
        scene = shell.scene
        for number, word in enumerate(invocation.args[:12]):
            name = program_name(word)
            if name not in self._rules or name in ("cat", "find"):
                continue
            inner = Invocation(name, invocation.args[number + 1 :], cwd=scene.cwd)
            for rule in self._rules[name]:
                if rule.family in _WORST and holds(rule, inner):
                    scene.find(rule.family, rule.reach)

    def _interpret(self, shell: Shell, invocation: Invocation, pipes: Pipes) -> None:
        scene = shell.scene
        texts = code_of(invocation, scene)
        if len(texts) > 1:
            # Interpreters join several texts as lines of one.
            texts = [*texts, "\n".join(texts)]
        for text in texts:
            scene.spend(len(text) * _CODE)
            judge_origin(scene, text)
            if invocation.name in (*POWERSHELLS, "cmd"):
                try_text(shell, text)
            if any(home in text for home in scene.own):
                scene.find("own-config")
            judged = code.judge(without_marks(text))
            for found in judged.findings:
                scene.find(found.family, found.reach)
            for script in judged.scripts:
                try_text(shell, script)


_WORST = frozenset(
    {"delete-root", "make-filesystem", "device-write", "kill-all", "reverse-shell", "bind-shell"}
)
_TO_SHELL = listed(
    "sudo su doas env exec nohup setsid chroot busybox script unshare runuser stdbuf ssh"
)
_ELSEWHERE = listed(
    "kubectl docker podman nerdctl oc ssh mosh sshpass ansible pdsh pssh clush dsh salt adb"
)
"""Wrappers whose inner command runs outside the sandbox."""


def _looks_destructive(invocation: Invocation) -> bool:
    return any(
        is_critical(operand, invocation.cwd) or is_device(operand) or is_credential(operand)
        for operand in invocation.operands
    ) or bool(
        re.search(r"(?:^|\s)-(?:rf|fr|Rf|r\s+-f|f\s+-r)\b|/dev/tcp/|of=/dev/", invocation.text)
    )


def judge_redirection(scene: Scene, operator: str, target: str) -> None:
    """Judge a redirection."""
    if is_below(target, scene.own, scene.cwd):
        scene.find("own-config")
    if ">" not in operator:
        if "<" in operator and is_credential(target, scene.cwd):
            scene.find("credential-files")
        return
    if re.match(r"/dev/(?:tcp|udp)/", target) and operator != ">&":
        scene.find("download" if operator == "<>" else SENDS)
        return
    replaces = operator in (">", ">|", "&>") or not is_trace(target, scene.cwd)
    if replaces and (family := replaced_family(target, scene.cwd)):
        scene.find(family)
    elif is_critical(target) and target != "/":
        scene.find("overwrite")
