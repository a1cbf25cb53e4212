"""Recognizes documents and extracts their text."""
