"""Make the certificates with which services over TCP prove who they are."""

import argparse
from pathlib import Path

from services.auth import Identity
from services.certs import init, issue
from services.cli.arguments import Actions
from services.cli.console import say
from services.clock import SystemClock

EXAMPLES = """\
examples:
  hermes certs init --folder certs
  hermes certs issue agent --folder certs --name agent --name agent.hermes.svc
  hermes certs issue operator --folder certs

Give the folder's ca.crt to every service, and to each its own certificate and key:
  HERMES_TLS_CA=certs/ca.crt
  HERMES_TLS_CERTIFICATE=certs/agent.crt
  HERMES_TLS_KEY=certs/agent.key"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `hermes certs`."""
    actions = Actions(parser, "init|issue", home=False)
    begin = actions.add("init", "make a certificate authority")
    make = actions.add("issue", "make a certificate for a service or an operator")
    make.add_argument(
        "identity", choices=[str(identity) for identity in Identity], help="whose it is"
    )
    make.add_argument(
        "--name",
        action="append",
        default=[],
        metavar="NAME",
        help="a DNS name or IP address under which it is called (localhost and 127.0.0.1)",
    )
    for action in (begin, make):
        action.add_argument("--folder", type=Path, default=Path("certs"), help="where (certs)")
        action.add_argument("--force", action="store_true", help="replace what is there")


def run(arguments: argparse.Namespace) -> int:
    """Makes the authority or a certificate."""
    now = SystemClock().now()
    if arguments.action == "init":
        say(f"made {init(arguments.folder, now, force=arguments.force)}")
        return 0
    names = arguments.name or ["localhost", "127.0.0.1"]
    files = issue(arguments.folder, Identity(arguments.identity), names, now, force=arguments.force)
    say(f"made {files.certificate} and {files.key}")
    return 0
