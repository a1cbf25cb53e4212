"""Make the certificates with which services over TCP prove who they are."""

from pathlib import Path

from services.auth import Identity
from services.certs import init, issue
from services.cli.certificate_secrets import ACCOUNT, API_SERVER, publish, secrets_of
from services.cli.command import Action, Command, Context, arg, flag
from services.cli.console import say
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


def _init(context: Context) -> None:
    given = context.given
    say(f"made {init(given.folder, SystemClock().now(), force=given.force)}")


def _issue(context: Context) -> None:
    given = context.given
    names = given.name or ["localhost", "127.0.0.1"]
    identity, now = Identity(given.identity), SystemClock().now()
    files = issue(given.folder, identity, names, now, force=given.force)
    say(f"made {files.certificate} and {files.key}")


def _publish(context: Context) -> None:
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
COMMAND = Command(
    EXAMPLES,
    has_home=False,
    actions=(
        Action("init", "make a certificate authority", _init, _WHERE),
        Action(
            "issue",
            "make a certificate for a service or an operator",
            _issue,
            (
                arg("identity", choices=[str(one) for one in Identity], help="whose it is"),
                arg(
                    "--name",
                    action="append",
                    default=[],
                    metavar="NAME",
                    help="a DNS name or IP address under which it is called (localhost and "
                    "127.0.0.1)",
                ),
                *_WHERE,
            ),
        ),
        Action(
            "publish",
            "keep the certificates of all in Secrets of this cluster",
            _publish,
            (
                arg("--namespace", required=True, help="namespace of the Secrets"),
                arg("--prefix", required=True, help="what their names begin with"),
                arg(
                    "--name",
                    action="append",
                    default=[],
                    metavar="SERVICE=NAME",
                    help="a DNS name under which a service is called",
                ),
                arg(
                    "--server",
                    default=API_SERVER,
                    metavar="URL",
                    help=f"the API server ({API_SERVER})",
                ),
                arg(
                    "--account",
                    type=Path,
                    default=Path(ACCOUNT),
                    metavar="FOLDER",
                    help=f"token and ca.crt ({ACCOUNT})",
                ),
            ),
        ),
    ),
)
