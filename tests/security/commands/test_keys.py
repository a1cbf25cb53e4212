"""Which files hold keys, whatever they are called."""

import pytest

from agent_service.security.commands.classifier import CommandClassifier

CLASSIFIER = CommandClassifier()
KEYS = [
    *("~/.ssh/work", "~/.ssh/work.pem", "~/.ssh/id_rsa.bak", "~/.ssh/keys/a", "~/.ssh"),
    *("~/.aws/sso/cache/x.json", "~/.aws/credentials", "~/.cache/huggingface/token"),
    *("~/.claude/.credentials.json", ".env.backup", "a/.env.prod-2", ".env", ".env.local"),
    *("/etc/letsencrypt/live/x/privkey.pem", "/etc/letsencrypt/archive/x/privkey1.pem"),
]
NO_KEYS = [
    *("~/.ssh/work.pub", "~/.ssh/known_hosts", "~/.ssh/known_hosts.old", "~/.ssh/config"),
    *(".env.example", ".env.sample", ".env.defaults", "app.env.ts", "credentials.json"),
    *("/etc/letsencrypt/live/x/fullchain.pem", "~/.cache/huggingface/hub/x/tokenizer.json"),
]


@pytest.mark.parametrize("path", KEYS)
def test_a_file_with_keys_is_known_by_its_place(path: str) -> None:
    assert "credential-files" in CLASSIFIER.classify(f"cat {path}").families


@pytest.mark.parametrize("path", NO_KEYS)
def test_what_lies_beside_keys_is_none(path: str) -> None:
    assert "credential-files" not in CLASSIFIER.classify(f"cat {path}").families
