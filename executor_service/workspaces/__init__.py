"""Workspaces: what sandboxes see as /workspace, from their making to their removal."""
