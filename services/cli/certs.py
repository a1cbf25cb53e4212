"""Make the certificates with which services over TCP prove who they are."""

import argparse
from pathlib import Path

from services.auth import Identity
from services.certs import init, issue
from services.cli.arguments import Actions
from services.cli.certificate_secrets import ACCOUNT, API_SERVER, Published, Secrets, publish
from services.cli.console import complain, say
from services.clock import SystemClock
from services.errors import InvalidArgument

EXAMPLES = """\
examples:
  hermes certs init --folder certs
  hermes certs issue agent --folder certs --name agent --name agent.hermes.svc
  hermes certs issue operator --folder certs
  hermes certs publish --namespace hermes --prefix hermes --name agent=hermes-agent.hermes.svc

Give the folder's ca.crt to every service, and to each its own certificate and key:
  HERMES_TLS_CA=certs/ca.crt
  HERMES_TLS_CERTIFICATE=certs/agent.crt
  HERMES_TLS_KEY=certs/agent.key

In a Kubernetes cluster publish keeps them in Secrets named PREFIX-agent-tls and so on, makes those
that are missing, and replaces those that end soon or are for other names."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `hermes certs`."""
    actions = Actions(parser, "init|issue|publish", home=False)
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
    spread = actions.add("publish", "keep the certificates of all in Secrets of this cluster")
    spread.add_argument("--namespace", required=True, help="namespace of the Secrets")
    spread.add_argument("--prefix", required=True, help="what their names begin with")
    spread.add_argument(
        "--name",
        action="append",
        default=[],
        metavar="SERVICE=NAME",
        help="a DNS name under which a service is called",
    )
    spread.add_argument(
        "--server", default=API_SERVER, metavar="URL", help=f"the API server ({API_SERVER})"
    )
    spread.add_argument(
        "--account",
        type=Path,
        default=Path(ACCOUNT),
        metavar="FOLDER",
        help=f"token and ca.crt ({ACCOUNT})",
    )


def run(arguments: argparse.Namespace) -> int:
    """Makes the authority or a certificate, or those of a cluster."""
    now = SystemClock().now()
    if arguments.action == "publish":
        names = _names(arguments.name)
        with Secrets(arguments.server, arguments.account, arguments.namespace) as secrets:
            for published in publish(secrets, arguments.prefix, names, now):
                _tell(published)
        return 0
    if arguments.action == "init":
        say(f"made {init(arguments.folder, now, force=arguments.force)}")
        return 0
    names = arguments.name or ["localhost", "127.0.0.1"]
    files = issue(arguments.folder, Identity(arguments.identity), names, now, force=arguments.force)
    say(f"made {files.certificate} and {files.key}")
    return 0


def _names(given: list[str]) -> dict[Identity, list[str]]:
    names: dict[Identity, list[str]] = {identity: [] for identity in Identity}
    for each in given:
        service, _, name = each.partition("=")
        if service not in names or not name:
            raise InvalidArgument(f"--name {each}: write it as agent=agent.hermes.svc")
        names[Identity(service)].append(name)
    return names


def _tell(published: Published) -> None:
    if published.advice:
        complain(published.advice)
    say(f"the Secret {published.secret} {published.done}")
