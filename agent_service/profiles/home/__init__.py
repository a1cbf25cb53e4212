"""A home that moves: every file of every profile, out of and into where they are kept."""
