"""Modal's service on this machine: its wire protocol, and bubblewrap in place of its cloud."""
