"""What a change has broken."""

import pytest

from agent_service.tools.patching.syntax import MAX_CHARS, broken


@pytest.mark.parametrize(
    ("path", "good", "bad", "said"),
    [
        ("a.py", "x = 1\n", "x = 1\ndef f(:\n", "not valid Python since this change: line 2: "),
        ("a.PYI", "", "x = \0", "not valid Python since this change: "),
        ("b/a.json", "{}", '{\n"a": }', "not valid JSON since this change: line 2: "),
        ("a.toml", "a = 1", "a = ", "not valid TOML since this change: "),
        ("a.yaml", "a: !Ref b\n", "a: 1\nb: [1\n", "not valid YAML since this change: line 3: "),
        ("a.yml", "a: 1\n---\nb: 2\n", "a: \x01\n", "not valid YAML since this change: "),
    ],
)
def test_only_what_the_change_broke_is_told(path: str, good: str, bad: str, said: str) -> None:
    assert said in broken(path, good, bad)
    assert said in broken(path, "", bad)
    assert not broken(path, bad, good)
    assert not broken(path, bad + "\n", bad)
    assert not broken("a.txt", good, bad)


@pytest.mark.parametrize("path", ["a.py", "a.json", "a.toml", "a.yaml"])
def test_what_cannot_be_judged_is_left_alone(path: str) -> None:
    assert not broken(path, "", "[" * (MAX_CHARS + 1))
    deep = "a = " + "[" * 60_000 + "]" * 60_000 if path == "a.toml" else "[" * 60_000 + "]" * 60_000
    broken(path, "", deep)
