"""Show, set, edit, migrate and check the configuration."""

import asyncio
import shlex
import shutil
import subprocess

from services.cli.command import DRY_RUN, JSON_LIST, YES, Command, Context, action, arg, flag
from services.cli.console import complain, say
from services.cli.output import Column, print_table
from services.cli.startup import catalog, imported, keep
from services.clock import SystemClock
from services.config.catalog import check_settings
from services.config.edit import migrate, renames
from services.config.settings import editing, load_settings
from services.errors import InvalidArgument
from services.home.paths import replace_file

EDITORS = ("nano", "vim", "vi")
"""Tried in order if the environment names none."""

ENDPOINT_PROBLEMS = "agent_service.assembly.checks:endpoint_problems"
"""Knows the providers."""

EXAMPLES = """\
examples:
  hermes config show                 show settings and where they are set
  hermes config show --all           show defaults as well
  hermes config set agent.max_turns 40
  hermes config set OPENROUTER_API_KEY sk-or-…
  hermes config edit                 open config.yaml in $VISUAL or $EDITOR
  hermes config migrate --dry-run    list settings with old names
  hermes config check                exit status 1 when something is wrong"""


_SHOWN = (Column("setting", "key"), Column("value"), Column("set by", "where"))


def _show(context: Context) -> None:
    """Show settings and where they are set."""
    settings = load_settings(vars(context.given))
    rows = [row for row in catalog().show(settings) if context.given.all or row.where != "default"]
    empty = "Nothing is set. Show the defaults with: hermes config show --all"
    context.print_list(rows, _SHOWN, empty)


def _set(context: Context) -> None:
    """Set a value in config.yaml, or in .env for NAME_IN_CAPITALS."""
    given = context.given
    settings = load_settings(vars(given))
    path = keep(settings, given.key, given.value)
    say(f"set {given.key} in {path}")
    settings, known = load_settings(vars(given)), catalog()
    place = known.root.find(given.key.split("."))
    declared = known.variables.get(given.key) or (place and place.setting)
    found = declared and settings.find(declared)
    if found and not found.where.startswith(str(path)):
        complain(f"{found.key} ({found.where}) takes precedence over it")


def _edit(context: Context) -> int:
    """Open config.yaml in an editor, then check it."""
    home, editor = editing(vars(context.given))
    command = shlex.split(editor) or [name for name in EDITORS if shutil.which(name)][:1]
    if not command:
        raise InvalidArgument("no editor found; set VISUAL or EDITOR")
    if not home.config.exists():
        replace_file(home.config, "", 0o600)
    try:
        ended = subprocess.run([*command, str(home.config)], check=False)
    except OSError as error:
        raise InvalidArgument(f"cannot start {command[0]}: {error.strerror}") from None
    if ended.returncode:
        complain(f"{command[0]} exited with status {ended.returncode}")
    return _check(context) or min(abs(ended.returncode), 1)


def _migrate(context: Context) -> None:
    """Rename settings that have old names."""
    settings = load_settings(vars(context.given))
    found = renames(settings, catalog())
    if not found:
        say(f"{settings.home.config} has no old names.")
        return
    print_table(("old name", "new name"), list(found.items()))
    if context.given.dry_run:
        return
    question = "Other programs that use this home may know only the old names. Rename them?"
    asyncio.run(context.confirm(question, "use --yes", "nothing was renamed"))
    copy = migrate(settings.home, found, SystemClock())
    say(f"Renamed the settings in {settings.home.config}. The old file is {copy}.")


def _check(context: Context) -> int:
    """Check config.yaml and .env for mistakes."""
    settings = load_settings(vars(context.given))
    notices = [*settings.not_on_host(), *check_settings(settings, catalog())]
    notices += imported(ENDPOINT_PROBLEMS)(settings)
    for notice in notices:
        say(notice)
    if not notices:
        say(f"{settings.home.config} and {settings.home.env} have no problems.")
    return 1 if notices else 0


COMMAND = Command(
    EXAMPLES,
    actions=(
        action(_show, flag("--all", "show defaults as well"), JSON_LIST),
        action(
            _set,
            arg("KEY", "path such as agent.max_turns, or name of a variable"),
            arg("VALUE", "the new value"),
        ),
        action(_edit),
        action(_migrate, DRY_RUN, YES),
        action(_check),
    ),
)
