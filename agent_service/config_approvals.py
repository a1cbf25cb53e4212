"""The agent's settings of what a person is asked."""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from services.config import ConfigModel, Yaml


def _known(value: object) -> object:
    return "deny" if value == "approve" else value


class ApprovalsConfig(ConfigModel):
    """What runs without a question, what a person decides, and what is refused."""

    mode: Annotated[Literal["manual", "smart", "off"], Yaml("approvals.mode")] = "manual"
    """`manual` asks a person before a command that is dangerous or not understood; `smart` lets a
    model allow what it finds harmless, and asks a person about the rest; `off` asks nobody. What
    would destroy the machine is refused in every mode."""
    sandboxed: Annotated[Literal["run", "ask"], Yaml("approvals.sandboxed")] = "run"
    """`ask` asks also before dangerous commands whose harm a disposable sandbox holds."""
    deny: Annotated[tuple[str, ...], Yaml("approvals.deny")] = ()
    """Patterns of commands that are always refused, such as `git push*`."""
    timeout_s: Annotated[float, Field(ge=1, le=7 * 86_400), Yaml("approvals.timeout")] = 900.0
    """Seconds after which an unanswered approval counts as denied."""
    unattended: Annotated[
        Literal["deny", "wait", "halt"],
        BeforeValidator(_known),
        Yaml("approvals.unattended", "approvals.cron_mode"),
    ] = "deny"
    """What becomes of questions of jobs and subagents, which nobody sits before: `deny` refuses
    such calls at once; `wait` lets them wait for `hermes approvals`; `halt` ends the turn. A job
    can have its own: `hermes jobs add --unattended`. Nothing runs unasked: `approve`, as older
    homes have it, counts as `deny`."""
