"""Workspaces, which sandboxes see as /workspace, from creation to removal."""
