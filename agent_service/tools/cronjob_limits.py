"""What jobs may have that are made in a conversation which has not everything itself."""

from msgspec.structs import replace

from agent_service.jobs import Wish
from agent_service.tools.base import RetryWithHint
from agent_service.toolsets import FOR_JOBS, NOTHING, known_toolset


def toolsets_of(names: list[str] | None) -> tuple[str, ...] | None:
    """The toolsets of these ids; None leaves them as they are."""
    try:
        return None if names is None else tuple(map(known_toolset, names))
    except ValueError as error:
        raise RetryWithHint(f"{error}.") from None


def limited(wish: Wish, most: frozenset[str], before: Wish | None = None) -> Wish:
    """The wish, whose job gets no toolset but of these, of which none means all.

    `before` is what the job was told that it changes. RetryWithHint where more is wished for.
    """
    if not most:
        return wish
    given = wish.toolsets
    if given is None and before is not None:
        given = before.toolsets or FOR_JOBS
    wanted = set(given or ()) - set(NOTHING)
    if wish.script:
        wanted.add("terminal")
    if wish.skills:
        wanted.add("skills")
    if beyond := sorted(wanted - most):
        raise RetryWithHint(
            f"This job would have {', '.join(beyond)}, which this conversation has not: it has "
            f"{', '.join(sorted(most))}, and gives no more away."
        )
    # An empty list would be all of them.
    return replace(wish, toolsets=given or tuple(n for n in FOR_JOBS if n in most) or NOTHING)
