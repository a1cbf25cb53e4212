"""What shells complete: scripts that they can read, with every command in them."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from services.cli.completion import SHELLS
from services.cli.main import COMMANDS
from tests.support.requirements import require

HERMES = Path(sys.executable).with_name("hermes")


def script(shell: str) -> str:
    done = subprocess.run([HERMES, "completion", shell], capture_output=True, text=True, check=True)
    return done.stdout


@pytest.mark.parametrize("shell", SHELLS)
def test_every_command_is_in_it(shell: str) -> None:
    text = script(shell)
    assert [name for name in COMMANDS if name not in text] == []


def completed(line: str) -> set[str]:
    """What bash offers behind a line."""
    require("bash", shutil.which("bash") is not None, "there is no bash")
    words = line.split(" ")
    asked = (
        f"{script('bash')}\n"
        f"COMP_WORDS=({' '.join(word or chr(39) * 2 for word in words)}); "
        f"COMP_CWORD={len(words) - 1}; COMP_LINE='{line}'; COMP_POINT={len(line)}\n"
        "_shtab_hermes\n"
        'printf "%s\\n" "${COMPREPLY[@]}"\n'
    )
    done = subprocess.run(["bash", "-c", asked], capture_output=True, text=True, check=False)
    return set(done.stdout.split())


def test_bash_completes_commands_actions_options_and_choices() -> None:
    assert completed("hermes ses") == {"sessions"}
    assert {"list", "pause", "resume"} <= completed("hermes jobs ")
    assert "--prompt" in completed("hermes jobs edit --pro") or completed("hermes jobs edit --")
    assert completed("hermes serve sch") == {"scheduler"}
