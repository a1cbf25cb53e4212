"""Connect an editor to Hermes by the Agent Client Protocol (ACP), on standard input and output.

The editor starts this command by itself; --setup prints what to paste into its settings."""

import json
import shlex
import sys
from pathlib import Path
from typing import Any

from services.cli.command import LOG_LEVEL, Command, Context, arg, flag
from services.cli.console import complain, say
from services.cli.startup import imported, run_in_home
from services.config.settings import load_settings
from services.errors import FailedPrecondition

EXAMPLES = """\
examples:
  hermes acp --setup              what to paste into your editor's settings
  hermes acp --setup --profile work
  hermes acp                      serve an editor; the editor starts this"""

MISSING = "hermes acp needs a package: pip install 'hermes-services[acp]'"
BY_HAND = "this speaks JSON with an editor; to see what to paste there: hermes acp --setup"


def _acp(context: Context) -> int:
    given = context.given
    if given.setup:
        program = str(Path(sys.argv[0]).absolute())  # editors may have another PATH
        say(setup(program, _options(context)))
        return 0
    try:
        serve = imported("services.cli.acp.serve:serve")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "acp":
            raise
        raise FailedPrecondition(MISSING) from None
    if sys.stdin.isatty():
        complain(BY_HAND)
    settings = context.settings
    return run_in_home(settings, lambda: serve(settings, context.profile))


def setup(program: str, options: list[str]) -> str:
    """Return what to paste into editors."""
    arguments = ["acp", *options]
    entry = {"type": "custom", "command": program, "args": arguments, "env": dict[str, str]()}
    command = shlex.join([program, *arguments])
    return f"""\
Zed: add this to settings.json (zed: open settings file), then choose Hermes in a new agent thread.

{_json({"agent_servers": {"Hermes": entry}})}

JetBrains IDEs: put this into ~/.jetbrains/acp.json.

{_json({"agent_servers": {"Hermes": {"command": program, "args": arguments}}})}

Neovim, Emacs (agent-shell), acpx and other clients: let them start this command.

{command}"""


def _json(value: dict[str, Any]) -> str:
    return json.dumps(value, indent=2)


def _options(context: Context) -> list[str]:
    given, environ = context.given, load_settings(vars(context.given)).environ
    home = given.home or environ.get("HERMES_HOME")  # editors may have another environment
    profile = given.profile or environ.get("HERMES_PROFILE")
    options = ["--home", str(Path(home).expanduser().absolute())] if home else []
    return [*options, *(["--profile", profile] if profile else ())]


COMMAND = Command(
    EXAMPLES,
    function=_acp,
    arguments=(
        flag("--setup", "print what to paste into the settings of editors"),
        arg("--model NAME", "model to use"),
        arg("--base-url URL", "OpenAI-compatible endpoint"),
        LOG_LEVEL,
    ),
    # As of `hermes chat`: the services are for this editor alone.
    defaults={"prefill": False, "warm_pool_size": 0, "keep_on_exit": False, "allow_workdir": True},
)
