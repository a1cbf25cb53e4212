"""Boxes that are pods of a cluster."""
