"""The tools that run commands and programs in the sandbox."""
