"""Make the certificates with which services over TCP prove who they are."""

from pathlib import Path

from services.cli.admin.certificate_secrets import ACCOUNT, API_SERVER, publish, secrets_of
from services.cli.command import Command, Context, action, arg, flag
from services.cli.console import say
from services.clock import SystemClock
from services.errors import InvalidArgument
from services.rpc.auth import Identity
from services.rpc.certs import init, issue

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


def _init(context: Context) -> None:
    """Make a certificate authority."""
    given = context.given
    say(f"made {init(given.folder, SystemClock().now(), force=given.force)}")


def _issue(context: Context) -> None:
    """Make a certificate for a service or an operator."""
    given = context.given
    names = given.name or ["localhost", "127.0.0.1"]
    identity, now = Identity(given.identity), SystemClock().now()
    files = issue(given.folder, identity, names, now, force=given.force)
    say(f"made {files.certificate} and {files.key}")


def _publish(context: Context) -> None:
    """Keep the certificates of all in Secrets of this cluster."""
    given = context.given
    names, now = _names(given.name), SystemClock().now()
    with secrets_of(given.server, given.account, given.namespace) as secrets:
        for name, done in publish(secrets, given.prefix, names, now):
            say(f"the Secret {name} {done}")


def _names(given: list[str]) -> dict[Identity, list[str]]:
    names: dict[Identity, list[str]] = {identity: [] for identity in Identity}
    for each in given:
        service, _, name = each.partition("=")
        if service not in names or not name:
            raise InvalidArgument(f"--name {each}: write it as agent=agent.hermes.svc")
        names[Identity(service)].append(name)
    return names


_WHERE = (
    arg("--folder", type=Path, default=Path("certs"), help="where (certs)"),
    flag("--force", "replace what is there"),
)
_ADDRESS = "a DNS name or IP address under which it is called (localhost and 127.0.0.1)"
_NAME = "a DNS name under which a service is called"
COMMAND = Command(
    EXAMPLES,
    has_home=False,
    actions=(
        action(_init, *_WHERE),
        action(
            _issue,
            arg("identity", choices=[str(one) for one in Identity], help="whose it is"),
            arg("--name", action="append", default=[], metavar="NAME", help=_ADDRESS),
            *_WHERE,
        ),
        action(
            _publish,
            arg("--namespace", required=True, help="namespace of the Secrets"),
            arg("--prefix", required=True, help="what their names begin with"),
            arg("--name", action="append", default=[], metavar="SERVICE=NAME", help=_NAME),
            arg("--server", default=API_SERVER, metavar="URL", help=f"API server ({API_SERVER})"),
            arg(
                "--account",
                type=Path,
                default=Path(ACCOUNT),
                metavar="FOLDER",
                help=f"token and ca.crt ({ACCOUNT})",
            ),
        ),
    ),
)
