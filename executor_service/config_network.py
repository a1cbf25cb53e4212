"""The settings of what commands may reach, and of secrets that they use there."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, StringConstraints, ValidationInfo, field_validator

from executor_service.egress.policy import Rule
from services.config import ConfigModel, Env, section
from services.public_addresses import address_of, ranges


def _rule(text: str) -> str:
    Rule.parse(text)
    return text


def _range(text: str) -> str:
    ranges([text])
    return text


def _secret_hosts(text: str) -> str:
    rule = Rule.parse(text)
    if address_of(rule.host.removeprefix("*.")) is not None:
        raise ValueError(f"{text}: a secret belongs to hosts with names")
    return text


SecretName = Annotated[str, StringConstraints(pattern=r"^[A-Z][A-Z0-9_]{0,63}$")]
HostRule = Annotated[str, AfterValidator(_rule)]
NetworkModeName = Literal["none", "allow_list", "open"]


@section("executor.network")
class NetworkConfig(ConfigModel):
    """What commands in sandboxes may reach where a caller does not say so."""

    mode: Annotated[NetworkModeName, Env("HERMES_NETWORK_MODE")] = "none"
    """`none`, `allow_list` for the hosts below, or `open` for every public address."""
    hosts: tuple[HostRule, ...] = ()
    """Hosts of the allow list: `example.com`, `*.example.com`, with other ports than 80 and 443
    `example.com:22,8443`."""
    secrets: tuple[SecretName, ...] = ()
    """Names of secrets, from `executor.secrets`, that commands may ask for."""
    refused: tuple[Annotated[str, AfterValidator(_range)], ...] = ()
    """Address ranges that are never reached, beside those that are not public: `203.0.113.0/24`."""

    @field_validator("hosts")
    @classmethod
    def _are_of_a_list(cls, hosts: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        if hosts and info.data.get("mode") != "allow_list":
            raise ValueError("hosts are for the mode allow_list")
        return hosts


class SecretConfig(ConfigModel):
    """A secret that commands use without seeing it."""

    file: str
    """File with the value, which only the executor needs to be able to read."""
    hosts: Annotated[tuple[Annotated[str, AfterValidator(_secret_hosts)], ...], Field(min_length=1)]
    """Hosts that it belongs to, by TLS at port 443 unless they name another."""
