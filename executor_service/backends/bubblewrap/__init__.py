"""Boxes made by bubblewrap, from the machine's own programs."""
