"""The tools for files of the sandbox."""
