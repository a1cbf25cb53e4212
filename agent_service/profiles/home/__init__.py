"""Import and export of homes: every file of every profile."""
