"""The seam between the backend and where the pods of its boxes come from."""

from collections.abc import Sequence
from typing import Protocol

from executor_service.backends.base import Box, BoxSpec
from executor_service.backends.kubernetes.reading import Json

Right = tuple[str, str, str, str]
"""API group, resource, subresource and verb."""


class Source(Protocol):
    """One way to come by pods."""

    @property
    def selector(self) -> str:
        """Labels that all of its pods have."""
        ...

    async def order(self, spec: BoxSpec, secret: str) -> Box:
        """Ask the cluster for a pod; the box has no native id as long as its pod is not known."""
        ...

    async def ordered(self, box: Box, spec: BoxSpec) -> Box | str:
        """The box once its pod runs, else what it waits for; BoxCreateFailed when it never will."""
        ...

    async def pod(self, box: Box) -> Json | None:
        """The pod of a box of ours, if there is one."""
        ...

    async def end(self, box: Box) -> None:
        """Have the pod of a box of ours end; returns when it is gone."""
        ...

    async def boxes(self) -> Sequence[Box]:
        """All boxes of ours that nobody is ending."""
        ...
