"""Jobs as a home keeps them in files."""
