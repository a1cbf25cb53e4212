"""The bars of the command classes on public lists of commands."""

from collections import Counter

from agent_service.security.commands.classifier import CommandClassifier
from agent_service.security.commands.families import CommandClass
from tests.support.corpora import rows

FLAGGED = 0.025
"""Of everyday commands, of which some really are dangerous by the families."""
RECALL = 0.95


def test_everyday_commands_rarely_alarm() -> None:
    classifier = CommandClassifier()
    commands = [row["command"] for row in rows("tldr.jsonl")]
    kinds = Counter(classifier.classify(command).kind for command in commands)
    assert len(commands) > 1000
    assert 1 - kinds[CommandClass.SAFE] / len(commands) <= FLAGGED


def test_shells_and_transfers_are_found() -> None:
    classifier = CommandClassifier()
    wanted = ("reverse-shell", "bind-shell", "upload", "download")
    found = [row for row in rows("gtfobins.jsonl") if row["function"] in wanted]
    missed = [row for row in found if classifier.classify(row["code"]).kind is CommandClass.SAFE]
    assert len(found) > 10
    assert 1 - len(missed) / len(found) >= RECALL, missed


def test_writes_to_sensitive_files_are_found() -> None:
    classifier = CommandClassifier()
    places = ("/etc/passwd", "/root/.ssh/authorized_keys", "/etc/cron.d/x", "/usr/bin/ls")
    made = [
        row["code"].replace("/path/to/output-file", place)
        for row in rows("gtfobins.jsonl")
        if row["function"] == "file-write" and "/path/to/output-file" in row["code"]
        for place in places
    ]
    missed = [code for code in made if classifier.classify(code).kind is CommandClass.SAFE]
    assert len(made) > 10
    assert 1 - len(missed) / len(made) >= RECALL, missed
