"""Slash commands: what people can tell Hermes itself, on every platform."""
