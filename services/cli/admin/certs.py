"""Create certificates for services that talk over TCP."""

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

Give every service ca.crt, and its own certificate and key:
  HERMES_TLS_CA=certs/ca.crt
  HERMES_TLS_CERTIFICATE=certs/agent.crt
  HERMES_TLS_KEY=certs/agent.key

In a Kubernetes cluster, publish stores certificates in Secrets (PREFIX-agent-tls and so on). It
creates missing ones and replaces those that expire soon or have other names."""


def _init(context: Context) -> None:
    """Create a certificate authority."""
    given = context.given
    say(f"created {init(given.folder, SystemClock().now(), force=given.force)}")


def _issue(context: Context) -> None:
    """Create a certificate for a service or an operator."""
    given = context.given
    names = given.name or ["localhost", "127.0.0.1"]
    identity, now = Identity(given.identity), SystemClock().now()
    files = issue(given.folder, identity, names, now, force=given.force)
    say(f"created {files.certificate} and {files.key}")


def _publish(context: Context) -> None:
    """Store the certificates of all services in Secrets of this cluster."""
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
    arg("--folder", "folder of the files (certs)", Path, default=Path("certs")),
    flag("--force", "replace existing files"),
)
_ADDRESS = "DNS name or IP address of the service; repeatable (localhost and 127.0.0.1)"
_NAME = "DNS name of a service; repeatable"
COMMAND = Command(
    EXAMPLES,
    has_home=False,
    actions=(
        action(_init, *_WHERE),
        action(
            _issue,
            arg("identity", "owner of the certificate", choices=[str(one) for one in Identity]),
            arg("--name NAME", _ADDRESS, action="append", default=[]),
            *_WHERE,
        ),
        action(
            _publish,
            arg("--namespace", "namespace of the Secrets", required=True),
            arg("--prefix", "prefix of the Secrets' names", required=True),
            arg("--name SERVICE=NAME", _NAME, action="append", default=[]),
            arg("--server URL", f"API server ({API_SERVER})", default=API_SERVER),
            arg(
                "--account FOLDER",
                f"folder with token and ca.crt ({ACCOUNT})",
                Path,
                default=Path(ACCOUNT),
            ),
        ),
    ),
)
