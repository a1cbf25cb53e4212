"""Reads patches as models write them, finds where they apply, and checks the syntax afterwards."""
