"""Of which template a session's sandbox is made."""

import pytest

from agent_service.config.tools import SandboxPolicy

POLICY = SandboxPolicy(template="usual", jobs="cheap", profiles={"work": "strong"})


@pytest.mark.parametrize(
    ("policy", "profile", "kind", "template"),
    [
        (SandboxPolicy(), "default", "user", ""),
        (SandboxPolicy(), "default", "job", ""),
        (POLICY, "default", "user", "usual"),
        (POLICY, "default", "job", "cheap"),
        (POLICY, "work", "user", "strong"),
        (POLICY, "work", "job", "strong"),
        (SandboxPolicy(template="usual"), "default", "job", "usual"),
    ],
)
def test_the_most_particular_wish_wins(
    policy: SandboxPolicy, profile: str, kind: str, template: str
) -> None:
    assert policy.template_for(profile, kind) == template
