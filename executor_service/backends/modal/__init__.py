"""Boxes that are sandboxes of the cloud service Modal."""
