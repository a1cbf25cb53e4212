"""The tools that the model can call; `builtin.py` is the list."""
