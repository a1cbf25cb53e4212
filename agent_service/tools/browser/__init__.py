"""The browser tools, and the program that drives the browser."""
