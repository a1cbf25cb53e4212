"""Boxes by template: made before they are wanted, found again after a restart, and ended."""
