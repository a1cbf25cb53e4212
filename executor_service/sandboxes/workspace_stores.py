"""Which store has the workspaces of which template."""

from executor_service.backends.base import Enforcement, WorkspacePlace
from executor_service.backends.stores import WorkspaceStore, store_elsewhere
from executor_service.errors import BackendUnavailable
from executor_service.sandboxes.templates import Template, Templates
from executor_service.workspaces.folders import Workspaces

ANY_BYTES = 1 << 50
"""More than any workspace takes."""


class WorkspaceStores:
    """The stores of all templates that can be had."""

    def __init__(self, templates: Templates, here: WorkspaceStore, workspaces: Workspaces) -> None:
        self._templates = templates
        self.here = here
        self.workspaces = workspaces

    def by_place(self) -> dict[str, WorkspaceStore]:
        """All of them by their places."""
        found = {self.here.place: self.here}
        for template in self._templates:
            store = self.store_for(template)
            if store is not None:
                found[store.place] = store
        return found

    def store_for(self, template: Template) -> WorkspaceStore | None:
        """Where a template's workspaces are kept, if they can be looked after there."""
        if template.capabilities.workspaces is WorkspacePlace.HERE:
            return self.here
        return store_elsewhere(template.choice.backend)

    def place_for(self, template: Template) -> str:
        """Names where a template's workspaces are; empty where they end with their boxes."""
        if template.capabilities.workspaces is WorkspacePlace.IN_BOX:
            return ""
        store = self.store_for(template)
        return template.name if store is None else store.place

    def store_at(self, place: str, backend: str) -> WorkspaceStore:
        """The store of a place; fails with BackendUnavailable."""
        store = self.by_place().get(place)
        if store is None:
            raise BackendUnavailable(
                f"nobody looks after workspaces at {place}: the backend {backend} cannot, or it is "
                "not configured or not reached now"
            )
        return store

    def limit_bytes(self, template: str) -> int | None:
        """How large sandboxes of a template can make a workspace; None where nothing holds them to
        a size, or it cannot be had now."""
        for one in self._templates:
            if one.name == template and one.capabilities.limits.workspace is not Enforcement.NONE:
                return one.limits.workspace_bytes
        return None

    def most_bytes(self, template: str) -> int:
        """How large a workspace of a template may be; where nothing holds it to that, any size."""
        if template not in {one.name for one in self._templates}:
            return self._templates.default.limits.workspace_bytes
        return self.limit_bytes(template) or ANY_BYTES
