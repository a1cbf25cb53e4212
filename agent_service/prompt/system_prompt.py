"""The system prompt of a session: built once, stored, and sent unchanged from then on."""

from collections.abc import Iterable, Mapping
from datetime import datetime

from msgspec import Struct

from agent_service.records.requests import quoted_name
from agent_service.records.sandbox import NO_ISOLATION

IDENTITY = """\
You are Hermes, a personal assistant that gets things done for one person.
Be helpful, knowledgeable and direct. Say what you know and say what you do not know. Prefer a
useful answer to a long one. When something can be looked up or tried, look it up or try it
instead of guessing, and look only where the question points."""

TOOL_USE = """\
# Tools
Use a tool when it brings you closer to the goal, and several in one message when they do not
depend on each other. Do what you announce in the same message. Read a result before you rely
on it; when a call fails, find out why before you try again."""

TOOL_USE_ENFORCED = """\
Act in the same message in which you decide to. Never end a message with what you are about to do,
and never describe a command or a file in place of running or writing it: call the tool. Go on until
the work is done and you have checked that it is, or until only the user can decide what is next."""

MEMORY_USE = """\
# Memory
What you know of the user and of your work from earlier sessions stands below, if there is any.
Save what will still hold in later sessions as soon as you learn it: preferences, corrections, the
environment, conventions, quirks of tools. One short entry for one thing; not what happened today.
When an entry turns out wrong, replace it."""

SKILLS_USE = """\
# What you have learned
Skills are notes on how to do a kind of work, kept between conversations. When you have found out
how something is done that was not obvious, or the user corrects how you work, keep it with
skill_manage: improve the skill that you have loaded, else one that fits, and make a new one only
for a kind of work that none covers. When a skill turns out wrong or incomplete, mend it at once."""

LEAN_USE = """\
# Memory and skills
What you know from earlier sessions stands below, if there is any. Save with memory what will still
hold in later ones: who the user is (user), and what you learned (memory). Skills are notes on how
to do a kind of work: see them with skills_list, and load one that fits with skill_view."""

SESSION_USE = """\
# Earlier sessions
What was said in earlier sessions is not in this conversation, but can be found: when the user
refers to something that you do not see here, look with session_search before you ask for it again.
Take what you find as what was true then."""

LEAN_FILE_CHARS = 2_000

_PLATFORMS = {
    "cli": "You are talking in a terminal that shows text as it is. Keep lines and tables narrow.",
    "telegram": (
        "You are talking in Telegram, usually to somebody on a phone. Keep answers short. "
        "Markdown is rendered, tables and headings are not."
    ),
    "whatsapp": (
        "You are talking in WhatsApp, usually to somebody on a phone. Be brief. Simple Markdown is "
        "rendered, tables and headings are not."
    ),
    "discord": (
        "You are talking in Discord, to one person or before a whole server. Keep answers short. "
        "Markdown and code blocks are rendered, tables are not."
    ),
    "mattermost": (
        "You are talking in Mattermost, usually among colleagues. Be brief. Markdown is rendered, "
        "also tables and code blocks."
    ),
    "slack": (
        "You are talking in Slack, usually among colleagues. Be brief. Simple Markdown and code "
        "blocks are rendered, tables and headings are not."
    ),
    "homeassistant": (
        "You are talking through Home Assistant, which may read answers aloud or show them on a "
        "small screen. Say what matters in a sentence or two of plain text."
    ),
    "email": (
        "You are answering an e-mail. Write plain text that stands by itself, since the reader may "
        "open it much later; no greeting or signature is needed."
    ),
    "sms": (
        "You are talking by SMS. Answer in plain text of a sentence or two: every 160 characters "
        "may cost the user a message."
    ),
    "signal": "You are talking in Signal, usually to somebody on a phone. Be short, in plain text.",
    "matrix": (
        "You are talking in Matrix, in a room that may have several people. Markdown and code "
        "blocks are rendered."
    ),
    "webhook": (
        "Another program has sent an event, and nobody waits to answer questions. Do what the "
        "message asks, and write an answer that stands by itself in a chat."
    ),
}


class SandboxKind(Struct, frozen=True):
    """The properties of a deployment's sandboxes, in the executor's terms."""

    isolation: str = ""
    network_mode: str = ""
    keeps_workspace: bool = False
    account: str = ""
    """The account that commands run as without isolation, as user@host."""


class SessionFacts(Struct, frozen=True):
    """What a session's prompt depends on."""

    session_id: str
    platform: str
    started_at: datetime
    """With the user's time zone."""
    toolsets: frozenset[str]
    is_lean: bool = False
    announces: bool = False
    """Whether the model tends to announce actions without taking them."""
    sandbox: SandboxKind | None = None
    """The sandbox of commands; None if unknown."""
    workdir: str = ""
    """The user's folder that is /workspace; empty if the session has its own."""
    system_messages: tuple[str, ...] = ()
    """From the configuration and the caller that creates the session."""
    soul: str = ""
    """The user's text about the agent's identity; empty is the default."""
    external: str = ""
    memories: tuple[str, ...] = ()
    skills: str = ""
    project: str = ""


def build(facts: SessionFacts) -> str:
    """The whole prompt."""
    return "\n\n".join(layer.strip() for layer in _layers(facts) if layer.strip())


def _fitting(text: str, facts: SessionFacts) -> str:
    if not facts.is_lean or len(text) <= LEAN_FILE_CHARS:
        return text
    return f"{text[:LEAN_FILE_CHARS]}\n[The rest is cut off: it is too long for this model.]"


def _layers(facts: SessionFacts) -> Iterable[str]:
    yield _fitting(facts.soul, facts).strip() or IDENTITY
    if facts.toolsets:
        yield f"{TOOL_USE}\n{TOOL_USE_ENFORCED}" if facts.announces else TOOL_USE
    if facts.is_lean:
        yield LEAN_USE
    else:
        yield MEMORY_USE if "memory" in facts.toolsets else ""
        yield SKILLS_USE if "skills" in facts.toolsets else ""
    if "session" in facts.toolsets:
        yield SESSION_USE
    if "terminal" in facts.toolsets:
        yield describe_sandbox(facts.sandbox, facts.workdir)
    yield _fitting(facts.external, facts)
    yield from facts.system_messages
    yield from facts.memories
    yield facts.skills
    yield _fitting(facts.project, facts)
    started = facts.started_at.isoformat(timespec="seconds")
    yield f"Current time: {started}\nSession: {facts.session_id}"
    yield _PLATFORMS.get(facts.platform, "")


_NETWORKS = {
    "none": "without network",
    "allow_list": "whose network reaches only the hosts that the user has allowed",
}

_HIDDEN = "The user cannot see files in it unless you show what they contain."


def describe_sandbox(kind: SandboxKind | None, workdir: str) -> str:
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


_PLACES = {
    "dm": "a private chat",
    "group": "a group, where several people may write and all of them read what you answer",
    "channel": "a channel, where many people may read what you answer",
    "thread": "a thread, where several people may write and all of them read what you answer",
}


def describe_chat(origin: Mapping[str, str]) -> str:
    """The chat in a few lines; empty if nothing can be sent there, as to a terminal."""
    platform, chat = origin.get("platform", ""), origin.get("chat_id", "")
    if not chat or platform in ("cli", "api_server"):
        return ""
    address = ":".join(part for part in (platform, chat, origin.get("thread_id", "")) if part)
    place = _PLACES.get(origin.get("chat_type", ""), _PLACES["group"])
    name = quoted_name(origin.get("user_name", ""))
    return (
        f"# This chat\nIt is {address}, {place}."
        + (f" Who began this session goes by the name {name}." if name else "")
        + " Your answers go there by themselves; this is its name for tools that send elsewhere."
    )
