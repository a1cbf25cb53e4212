"""When jobs run, and what their runs do."""
