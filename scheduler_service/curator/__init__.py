"""The curator as a kind of job: when it runs, what its runs do, and what people ask of it."""
