"""Connections from sandboxes to the network, as far as their policy allows them.

A box has no network. Its supervisor carries connections as streams to this package, which reads the
request, resolves the name, checks the address and connects to that address. All decisions are made
here, outside the box.
"""
