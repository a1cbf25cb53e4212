"""Between the messages of the contracts and the executor's own types, one module a noun."""
