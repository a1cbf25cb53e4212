"""The way from a sandbox to the world: which connections its policy allows, and nothing else.

A box has no network. Its supervisor carries connections as streams to this package, which reads
what is asked for, resolves the name, looks at the address, connects to that very address, and
passes bytes on. Everything that decides is here, outside of the box.
"""
