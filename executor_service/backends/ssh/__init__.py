"""Boxes that are processes of an account on another machine."""
