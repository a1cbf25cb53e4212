"""Judging takes a bounded time, whatever the command is."""

import time
from collections.abc import Callable

import pytest

from agent_service.security.commands.classifier import CommandClassifier
from agent_service.security.commands.families import CommandClass

CLASSIFIER = CommandClassifier()
LENGTH = 20_000
MOST_S = 2.0
"""Of a processor, which other work beside the tests does not change; ordinary ones take 1 ms."""


def nested(grow: Callable[[str], str], core: str = "x") -> str:
    """What grows out of the core until it is as long as it may be."""
    while len(longer := grow(core)) <= LENGTH:
        core = longer
    return core


HOSTILE = {
    "substitutions": nested(lambda text: f"$(echo {text}|sed s/a/b/)"),
    "substitutions, twice each": nested(lambda text: f"echo $({text};{text})"),
    "values that double": "a=xxxxxxxxxxxxxxxx;" + 'a="$a$a$a$a";' * 1200,
    "a pattern of sed": f"echo {'a' * 4000}b|sed -e 's/[a]*[a]*[a]*[a]*c/x/'",
    "an edit that never ends": "echo a|sed 's/" + "\\a" * 9000 + "'",
    "a pattern of a variable": f"a={'x' * 1000};" + "b=${a//[x]*[x]*[x]*[x]*y/z};" * 400,
    "the beginning of a variable": f"a={'x' * 1000};" + "b=${a##*y*y*y*y*y*y};" * 600,
    "braces that are never closed": "echo " + "{" * LENGTH,
    "braces in braces": "rm " + "{{{{{a,b},c},d},e},f} " * 800,
    "functions that call functions": "".join(
        f"a{level}(){{ {f'a{level - 1};' * 30} }};" for level in range(1, 60)
    ),
    "items in a loop": f"for i in {'a ' * 3000}; do {'echo $i;' * 1500} done",
    "wrappers": "sudo " * 3900 + "ls",
    "names that are not told": "*m -rf a;" * 2200,
    "a quote that is never closed": "' \"" + "\\a" * 9000,
    "an array whose quote is never closed": 'a=("' + "\\a" * 9000 + "')'",
    "a list of program text": "python3 -c 'run([" + ' "a"' * 4000 + " x'",
    "blank lines of program text": "python3 -c '" + "\n" * 19000 + "'",
    "blanks of program text": "python3 -c 'http://a open" + " " * 19000 + "'",
    "a word of program text": "python3 -c 'http://a " + "open" * 4900 + "'",
}


QUICK = {
    "marks of sed": "sed '" + "s/" * 20_000 + "'",
    "edits of sed": f"echo {'a' * 4000}|sed" + " -e 's/a*b/x/'" * 2400,
    "short edits of sed": "echo a|sed" + " -e 's/[ab]c/x/'" * 2400,
    "what sed makes long": f"echo {'a' * 4000}|sed 's/a/{'x' * 30_000}/g'",
    "macros that are never closed": "rpm --eval '" + "%(" * 20_000 + "'",
    "a width of printf": "printf '%" + "0" * 40_000 + "'",
    "blanks behind print": "python3 -c 'print" + " " * 40_000 + "'",
    "many marks of xargs": "echo aa aa | xargs " + "-I a " * 24 + "echo xa",
    "escapes of a terminal": "\x1b[" * 20_000,
    "escapes of a terminal, as arguments": "xargs " + "\x1b[" * 20_000,
    "a function that names itself": "f(){ " + "f " * 20_000 + "; }",
    "redirections": ">" * 40_000,
    "bars": "| sh " * 8_000,
    "bars at the ends of lines": "x |\n" * 8_000,
    "here-documents": "<<E\n" * 10_000,
    "arguments": "rm -rf " + "rm " * 15_000,
    "zero bytes": "sh -c \"$(printf '" + "\\x00" * 10_000 + "' | xxd -r -p)\"",
    "marks of find": f"find {'a' * 20_000} -exec " + "{}" * 9000 + " +",
}
QUICK_S = 1.0


@pytest.mark.parametrize("command", QUICK.values(), ids=QUICK)
def test_nothing_takes_long_for_being_repeated(command: str) -> None:
    started = time.process_time()
    CLASSIFIER.classify(command)
    assert time.process_time() - started < QUICK_S


@pytest.mark.parametrize(
    "script",
    [
        *("s/x/rm -rf \\//e", "s/[/]*x/rm -rf \\//e", "s/a/b/; s|x|rm -rf /|ge", "1s,x,rm -rf /,e"),
        *("/a/s!x!rm -rf /!e;p", "s/a/b/;s/x/rm -rf \\//e}", "1e rm -rf /"),
    ],
)
def test_what_an_edit_runs_is_followed(script: str) -> None:
    assert "delete-root" in CLASSIFIER.classify(f"sed '{script}' a").families


@pytest.mark.parametrize("command", HOSTILE.values(), ids=HOSTILE)
def test_no_command_takes_long(command: str) -> None:
    started = time.process_time()
    CLASSIFIER.classify(command)
    assert time.process_time() - started < MOST_S


def test_what_takes_too_much_is_not_understood() -> None:
    verdict = CLASSIFIER.classify(HOSTILE["values that double"])
    assert (verdict.kind, verdict.certain) == (CommandClass.UNPARSEABLE, False)


@pytest.mark.parametrize("padding", ["| sh " * 8_000, ">" * 40_000, "<<E\n" * 10_000])
def test_padding_that_cannot_be_parsed_hides_nothing_before_it(padding: str) -> None:
    verdict = CLASSIFIER.classify(f"rm -rf /; {padding}")
    assert verdict.kind is CommandClass.HARDLINE
    assert CLASSIFIER.classify("rm -rf /").kind is CommandClass.HARDLINE


def test_what_is_not_understood_counts_as_leaving_a_sandbox() -> None:
    assert not CLASSIFIER.classify("chmod 777 x").leaves_sandbox
    assert CLASSIFIER.classify("chmod 777 x '").leaves_sandbox
    assert CLASSIFIER.classify("chmod 777 x; " + HOSTILE["values that double"]).leaves_sandbox


def test_what_was_found_before_it_took_too_much_counts() -> None:
    verdict = CLASSIFIER.classify("rm -rf /; " + HOSTILE["values that double"])
    assert verdict.kind is CommandClass.HARDLINE


def test_long_files_and_programs_are_no_trouble() -> None:
    lines = "\n".join(f"value_{number} = compute({number}, 'text')" for number in range(500))
    for command in (f"cat > a.py <<'E'\n{lines}\nE", f"python3 - <<'E'\n{lines}\nE"):
        assert len(command) > 15_000
        assert CLASSIFIER.classify(command).kind is CommandClass.SAFE


@pytest.mark.parametrize("pattern", ["*x*x*y", "**", "[x", "[!x]*", "?*?", "+*", "(*"])
def test_every_pattern_of_a_shell_is_taken(pattern: str) -> None:
    for operator in ("/", "//", "#", "##", "%", "%%"):
        verdict = CLASSIFIER.classify(f"a=xxxx; rm -rf /${{a{operator}{pattern}/z}}")
        assert "delete-root" in verdict.families or "recursive-delete" in verdict.families
    verdict = CLASSIFIER.classify(f"echo xxxx | sed 's/{pattern}/z/' && rm -rf /")
    assert verdict.kind is CommandClass.HARDLINE


@pytest.mark.parametrize(
    "text",
    [
        *("fetch(" * 3_000, "urlopen('a', timeout=1, " * 1_500, "open(" + "a" * 30_000),
        *(
            "requests.get(u)\nu=" * 1_500,
            "https://a.io+'" * 2_000,
            "x = 'a'\n" * 3_000 + "fetch(x)",
            "import requests\nu='https://a.b'\n" + "get(u)\n" * 2_500,
            "run(['dig', " * 1_500,
            "u='https://a.b'\n" * 1_000 + "u + u\n" * 1_000,
        ),
    ],
)
def test_no_program_text_takes_long(text: str) -> None:
    started = time.process_time()
    CLASSIFIER.classify(f"node -e {text!r}; python3 - <<'E'\n{text}\nE")
    assert time.process_time() - started < MOST_S
