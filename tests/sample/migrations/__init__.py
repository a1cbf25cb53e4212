"""Migrations of the sample schema."""

HEAD = "0002"
