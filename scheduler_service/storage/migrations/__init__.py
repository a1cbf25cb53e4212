"""How databases of earlier versions become what `schema.py` says."""

HEAD = "0012"
"""The revision that `schema.py` stands for."""
