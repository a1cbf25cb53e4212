"""When jobs run, and how."""
