"""Describes to the model where its commands run."""

from msgspec import Struct

from agent_service.records.sandbox import NO_ISOLATION


class SandboxKind(Struct, frozen=True):
    """The properties of a deployment's sandboxes, in the executor's terms."""

    isolation: str = ""
    network_mode: str = ""
    keeps_workspace: bool = False
    account: str = ""
    """The account that commands run as without isolation, as user@host."""


_NETWORKS = {
    "none": "without network",
    "allow_list": "whose network reaches only the hosts that the user has allowed",
}

_HIDDEN = "The user cannot see files in it unless you show what they contain."


def describe(kind: SandboxKind | None, workdir: str) -> str:
    """The layer about commands and files; `kind` None is unknown, `workdir` empty is none."""
    if kind is not None and kind.isolation == NO_ISOLATION:
        return _machine(kind)
    sentences = [
        f"Commands and files live in this session's own sandbox{_nature(kind)}",
        _workspace(kind is None or kind.keeps_workspace, workdir),
    ]
    if not workdir:
        sentences.append(_HIDDEN)
    return "# Sandbox\n" + " ".join(sentences)


def _nature(kind: SandboxKind | None) -> str:
    if kind is None:
        return (
            ". How well it is kept apart from the machine that it runs on, and what network it "
            "has, is not known: be careful, and try before you rely on either."
        )
    network = _NETWORKS.get(kind.network_mode, "with network")
    return f", an isolated Linux machine {network}."


def _workspace(is_kept: bool, workdir: str) -> str:
    rest = "everything else may be gone when the sandbox is replaced."
    if workdir:
        return (
            f"Its folder /workspace is the user's own folder {workdir}: what you change there is "
            f"changed for the user; {rest}"
        )
    if is_kept:
        return f"Its folder /workspace is kept for the session; {rest}"
    return (
        "All of it, /workspace too, is gone when the sandbox is replaced, as after a longer pause: "
        "show what must last in your answer."
    )


def _machine(kind: SandboxKind) -> str:
    where = f"as {kind.account}" if kind.account else "as an account of a real machine"
    return (
        f"# Machine\nCommands run directly {where}, without any isolation: what they change or "
        "delete is changed and deleted for everybody there. Be careful. Work in this session's own "
        "folder, in which commands start and which the file tools call /workspace; touch what is "
        "outside of it only when the user asks for that. The network is that machine's. The user "
        "cannot see files there unless you show what they contain."
    )
