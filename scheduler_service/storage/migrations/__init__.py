"""How databases of earlier versions become what `schema.py` says."""

HEAD = "0012"
"""The revision that `schema.py` stands for."""

OLDEST_RELEASE = "0.1.0"
"""The latest release that a step's `contracts` names: it and those after it run on these tables."""
