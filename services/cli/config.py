"""Show, set, edit, migrate and check the configuration."""

import argparse
import asyncio
import shlex
import shutil
import subprocess

from services.cli.arguments import Actions
from services.cli.console import complain, print_json, say
from services.cli.standard_input import agreed
from services.cli.startup import catalog
from services.cli.tables import print_table
from services.clock import SystemClock
from services.config import editing, load_settings
from services.config_catalog import ConfigCatalog, Shown
from services.config_check import check_settings
from services.config_edit import set_value
from services.config_migrate import migrate, renames
from services.errors import InvalidArgument
from services.home import replace_file

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


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `hermes config`."""
    actions = Actions(parser, "show|set|edit|migrate|check")
    show = actions.add("show", "the settings in effect and what set them")
    show.add_argument("--all", action="store_true", help="also what has its default")
    show.add_argument("--json", action="store_true", help="one JSON list")
    change = actions.add("set", "change config.yaml, or .env for NAME_IN_CAPITALS")
    change.add_argument("key", help="a path such as agent.max_turns, or a variable")
    change.add_argument("value", help="the new value")
    actions.add("edit", "open config.yaml in an editor, and check it afterwards")
    migrating = actions.add("migrate", "give settings that have older names their present ones")
    migrating.add_argument("--dry-run", action="store_true", help="only say what would be done")
    migrating.add_argument("--yes", action="store_true", help="do not ask")
    actions.add("check", "look for mistakes")


def run(arguments: argparse.Namespace) -> int:
    """Does what the action says."""
    known = catalog()
    match arguments.action:
        case "set":
            settings = load_settings(vars(arguments))
            path = set_value(settings.home, arguments.key, arguments.value, known.models)
            say(f"{arguments.key} is set in {path}")
            return 0
        case "show":
            return _show(arguments, known)
        case "edit":
            return _edit(arguments, known)
        case "migrate":
            return _migrate(arguments, known)
        case _:
            return _check(arguments, known)


def _show(arguments: argparse.Namespace, known: ConfigCatalog) -> int:
    settings = load_settings(vars(arguments))
    rows = [row for row in known.show(settings) if arguments.all or row.where != "default"]
    if arguments.json:
        print_json([_described(row) for row in rows])
    elif rows:
        print_table(
            ("setting", "value", "set by"), [(row.entry.key, row.value, row.where) for row in rows]
        )
    else:
        say("Nothing is set; everything has its default. See them with: hermes config show --all")
    return 0


def _edit(arguments: argparse.Namespace, known: ConfigCatalog) -> int:
    home, editor = editing(vars(arguments))
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
    return _check(arguments, known) or min(abs(ended.returncode), 1)


def _migrate(arguments: argparse.Namespace, known: ConfigCatalog) -> int:
    settings = load_settings(vars(arguments))
    found = renames(settings, known)
    if not found:
        say(f"{settings.home.config} has no older names.")
        return 0
    print_table(("older name", "name"), [(one.old, one.new) for one in found])
    if arguments.dry_run:
        return 0
    question = "Other programs that share this home may know the older names only. Rename them?"
    if not arguments.yes and not asyncio.run(agreed(question, "use --yes")):
        return 1
    copy = migrate(settings.home, found, SystemClock())
    say(f"{settings.home.config} has the present names; as it was it is kept as {copy}.")
    return 0


def _check(arguments: argparse.Namespace, known: ConfigCatalog) -> int:
    settings = load_settings(vars(arguments))
    notices = check_settings(settings, known)
    for notice in notices:
        say(notice.message)
    if not notices:
        say(f"{settings.home.config} and {settings.home.env} are fine.")
    return 1 if notices else 0


def _described(row: Shown) -> dict[str, str]:
    return {"key": row.entry.key, "value": row.value, "set_by": row.where}
