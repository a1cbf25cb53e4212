"""Checks of calls before they run, and of results before the model reads them."""
