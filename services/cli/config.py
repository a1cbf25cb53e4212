"""Show, set, edit, migrate and check the configuration."""

import asyncio
import shlex
import shutil
import subprocess

from services.cli.command import DRY_RUN, JSON_LIST, YES, Command, Context, action, arg, flag
from services.cli.console import complain, say
from services.cli.output import Column, print_table
from services.cli.startup import catalog, keep
from services.clock import SystemClock
from services.config.catalog import check_settings
from services.config.edit import migrate, renames
from services.config.settings import editing, load_settings
from services.errors import InvalidArgument
from services.home.paths import replace_file

EDITORS = ("nano", "vim", "vi")
"""Tried in this order where the environment names none."""

EXAMPLES = """\
examples:
  hermes config show                 what is set, and where
  hermes config show --all           the defaults too
  hermes config set agent.max_turns 40
  hermes config set OPENROUTER_API_KEY sk-or-…
  hermes config edit                 in the editor of $VISUAL or $EDITOR, and then checked
  hermes config migrate --dry-run    which settings have older names
  hermes config check                exit status 1 when something is wrong"""


_SHOWN = (
    Column("key", "setting", "setting.key"),
    Column("value", "value"),
    Column("set_by", "set by", "where"),
)


def _show(context: Context) -> None:
    """The settings in effect and what set them."""
    settings = load_settings(vars(context.given))
    rows = [row for row in catalog().show(settings) if context.given.all or row.where != "default"]
    empty = "Nothing is set; everything has its default. See them with: hermes config show --all"
    context.print_list(rows, _SHOWN, empty)


def _set(context: Context) -> None:
    """Change config.yaml, or .env for NAME_IN_CAPITALS."""
    given = context.given
    settings = load_settings(vars(given))
    say(f"{given.key} is set in {keep(settings, given.key, given.value)}")


def _edit(context: Context) -> int:
    """Open config.yaml in an editor, and check it afterwards."""
    home, editor = editing(vars(context.given))
    command = shlex.split(editor) or [name for name in EDITORS if shutil.which(name)][:1]
    if not command:
        raise InvalidArgument("there is no editor; set VISUAL or EDITOR to one")
    if not home.config.exists():
        replace_file(home.config, "", 0o600)
    try:
        ended = subprocess.run([*command, str(home.config)], check=False)
    except OSError as error:
        raise InvalidArgument(f"{command[0]} cannot be started: {error.strerror}") from None
    if ended.returncode:
        complain(f"{command[0]} ended with {ended.returncode}")
    return _check(context) or min(abs(ended.returncode), 1)


def _migrate(context: Context) -> None:
    """Give settings that have older names their present ones."""
    settings = load_settings(vars(context.given))
    found = renames(settings, catalog())
    if not found:
        say(f"{settings.home.config} has no older names.")
        return
    print_table(("older name", "name"), list(found.items()))
    if context.given.dry_run:
        return
    question = "Other programs that share this home may know the older names only. Rename them?"
    asyncio.run(context.confirm(question, "use --yes", "nothing was renamed"))
    copy = migrate(settings.home, found, SystemClock())
    say(f"{settings.home.config} has the present names; as it was it is kept as {copy}.")


def _check(context: Context) -> int:
    """Look for mistakes."""
    settings = load_settings(vars(context.given))
    notices = [*settings.not_on_host(), *check_settings(settings, catalog())]
    for notice in notices:
        say(notice)
    if not notices:
        say(f"{settings.home.config} and {settings.home.env} are fine.")
    return 1 if notices else 0


COMMAND = Command(
    EXAMPLES,
    actions=(
        action(_show, flag("--all", "also what has its default"), JSON_LIST),
        action(
            _set,
            arg("key", help="a path such as agent.max_turns, or a variable"),
            arg("value", help="the new value"),
        ),
        action(_edit),
        action(_migrate, DRY_RUN, YES),
        action(_check),
    ),
)
