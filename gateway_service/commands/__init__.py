"""Slash commands: what a person can say to Hermes itself, on every platform."""
