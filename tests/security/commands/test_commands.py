"""What commands are judged to be: rules and spellings."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_service.security.commands.classifier import LONGEST, CommandClassifier
from agent_service.security.commands.families import FAMILIES, SENDS, CommandClass, Verdict
from agent_service.security.commands.rules import RULES
from agent_service.security.commands.rules.base import KINDS

SPELLINGS = [
    json.loads(line)
    for line in (Path(__file__).parent / "spellings.jsonl").read_text().splitlines()
]
CLASSIFIER = CommandClassifier()


def rows(table: str) -> list[tuple[str, str]]:
    """The commands of a table, each with its family."""
    return [(row["command"], row["family"]) for row in SPELLINGS if row["table"] == table]


def wrong(*tables: str, is_right: Callable[[Verdict, str], bool]) -> list[str]:
    """The commands of tables whose verdict is not right for their family."""
    listed = [row for table in tables for row in rows(table)]
    assert listed
    return [text for text, family in listed if not is_right(CLASSIFIER.classify(text), family)]


def test_each_kind_of_call_is_found() -> None:
    def is_right(verdict: Verdict, family: str) -> bool:
        return verdict.sends if family == SENDS else family in verdict.families

    assert wrong("example", is_right=is_right) == []


def test_there_are_many_families_and_each_is_found() -> None:
    tables = ("example", "refused", "shell", "dangerous")
    found = {family for table in tables for _, family in rows(table)}
    assert len(FAMILIES) >= 25
    assert found == set(FAMILIES)


def test_rules_name_families_and_kinds_that_there_are() -> None:
    assert {rule.family for rule in RULES} <= set(FAMILIES)
    assert {rule.operands.split()[-1] for rule in RULES if rule.operands} <= set(KINDS)


def test_what_is_never_run_is_known_in_every_spelling() -> None:
    def is_right(verdict: Verdict, family: str) -> bool:
        return verdict.kind is CommandClass.HARDLINE and family in verdict.families

    assert wrong("refused", is_right=is_right) == []


def test_what_is_dangerous_is_known() -> None:
    def is_right(verdict: Verdict, family: str) -> bool:
        kinds = (CommandClass.DANGEROUS, CommandClass.HARDLINE)
        return verdict.kind in kinds and family in verdict.families

    assert wrong("shell", "dangerous", is_right=is_right) == []


def test_everyday_commands_are_safe() -> None:
    def is_right(verdict: Verdict, _: str) -> bool:
        return (verdict.kind, verdict.families) == (CommandClass.SAFE, ())

    assert wrong("everyday", is_right=is_right) == []


def test_what_only_resembles_the_worst_asks_and_is_not_refused() -> None:
    def is_right(verdict: Verdict, _: str) -> bool:
        return verdict.kind is CommandClass.DANGEROUS

    assert wrong("resembling", is_right=is_right) == []


def test_what_sends_is_known_and_is_not_dangerous_for_that() -> None:
    def is_right(verdict: Verdict, family: str) -> bool:
        return (verdict.sends, verdict.kind) == (family == SENDS, CommandClass.SAFE)

    assert wrong("sent", "kept", is_right=is_right) == []


@pytest.mark.parametrize("table", ["leaving", "staying"])
def test_what_leaves_a_sandbox(table: str) -> None:
    for command, _ in rows(table):
        verdict = CLASSIFIER.classify(command)
        assert verdict.kind is CommandClass.DANGEROUS, command
        assert verdict.leaves_sandbox is (table == "leaving"), command


@pytest.mark.parametrize(
    "command", ["echo 'a", "echo $(", "if true", "x=(1", "f() { a", "echo " + "x" * LONGEST]
)
def test_what_is_not_understood_is_said_to_be(command: str) -> None:
    assert CLASSIFIER.classify(command).kind is CommandClass.UNPARSEABLE


@pytest.mark.parametrize(
    "place",
    [
        *("unset @", 'unset "@"', "unset `rm -rf /`", "unset -v a[@]", "unset x${a:-@}y"),
        *("declare a[@]=1", "local x=@", "typeset @", "readonly x=@", "export @", "let a=@"),
        *("test -n @", "[ -n @ ]", "[[ -v a[@] ]]", "[[ a =~ @ ]]", "((a[@]++))"),
        *("a[@]=1", "a[@]=1 ls", "a=(@)", "a=([@]=1)", "a=([1]=`rm -rf /`)", "a+=(x @)"),
        *(": ${y[@]}", ": ${#y[@]}", "y=1; : ${y[@]}", ": ${y:+@}", ": ${y?@}", ": ${y#@}"),
        *(": ${y/@/x}", "y=a; : ${y/@/x}", "y=a; : ${y/x/@}", "y=ab; : ${y:@:1}", ": ${y^^@}"),
        ": " + "${y:-" * 20 + "@" + "}" * 20,
    ],
)
def test_what_is_substituted_is_followed_wherever_it_stands(place: str) -> None:
    verdict = CLASSIFIER.classify(place.replace("@", "$(rm -rf /)"))
    assert "delete-root" in verdict.families


def test_names_that_are_unset_are_words() -> None:
    verdict = CLASSIFIER.classify('unset -v HIST"FILE" a[1] $X')
    assert verdict.normalised[0][:4] == ("unset", "-v", "HISTFILE", "a[1]")


def test_what_is_not_understood_hides_nothing() -> None:
    assert CLASSIFIER.classify("{rm,-rf,/} '").kind is CommandClass.HARDLINE
    assert CLASSIFIER.classify("rm -rf / #" + "x" * LONGEST).kind is CommandClass.HARDLINE


def test_the_normalised_form_is_the_same_for_every_spelling() -> None:
    plain = CLASSIFIER.classify("rm -rf build")
    spelt = CLASSIFIER.classify("r''m  \"-rf\" b\\uild")
    assert plain.normalised == spelt.normalised == (("rm", "-rf", "build"),)
    assert plain.certain
    assert not CLASSIFIER.classify("rm -rf $X").certain


@pytest.mark.parametrize(
    ("allowed", "other"),
    [
        ("psql <<E\ndrop table a;\nE", "psql <<E\ndrop table b;\nE"),
        ("echo 'drop table a' | psql", "echo 'drop table a'; psql"),
        ("PGHOST=test psql -c 'drop table a'", "PGHOST=live psql -c 'drop table a'"),
        ("PGHOST=test; psql -c 'drop table a'", "PGHOST=live; psql -c 'drop table a'"),
        ("git push -f <<< a", "git push -f"),
        ("curl x > a", "curl x >> a"),
    ],
)
def test_what_programs_are_given_otherwise_is_another_command(allowed: str, other: str) -> None:
    assert CLASSIFIER.classify(allowed).normalised != CLASSIFIER.classify(other).normalised


def test_texts_in_texts_end() -> None:
    command = "true"
    for _ in range(30):
        command = "sh -c " + "'" + command.replace("'", "'\\''") + "'"
        if len(command) > 20_000:
            break
    verdict = CLASSIFIER.classify(command)
    assert verdict.kind in (CommandClass.SAFE, CommandClass.UNPARSEABLE)
    assert CLASSIFIER.classify("f() { f; }; f").kind is CommandClass.SAFE
    assert CLASSIFIER.classify("find -exec " * 1000).kind is CommandClass.UNPARSEABLE
    assert CLASSIFIER.classify("(" * 3000).kind is CommandClass.UNPARSEABLE
    assert CLASSIFIER.classify("a={1..99}{1..99}{1..99}; echo $a$a$a").kind in CommandClass


def test_a_file_that_has_no_text_yet_is_no_program() -> None:
    verdict = CLASSIFIER.classify("cat <(true) <(cd /dev/fd; pip install $T; rm -rf /)")
    assert verdict.kind is CommandClass.HARDLINE
    assert CLASSIFIER.classify("<(echo a > $T/a.py; pip install $T").kind in CommandClass


_WIDE = """
from agent_service.security.commands.classifier import CommandClassifier
classifier = CommandClassifier()
for code in range(0x100, 0x110000, 0x400):
    if not 0xD800 <= code < 0xE000:
        for text in (f"{{{chr(code)}}}", f"<<E\\n${chr(code)}\\nE\\n", f"[ -{chr(code)} ]"):
            classifier.classify(text)
print(classifier.classify("rm -rf '/\U000f0000'*").families)
"""


def test_characters_beyond_the_tables_of_the_grammar_end_nothing() -> None:
    # What lies behind the tables is chance; in a young process it is nothing that can be read.
    ran = subprocess.run([sys.executable, "-c", _WIDE], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "recursive-delete" in ran.stdout
