"""Changes to texts as models write them: what they mean, where they belong, what they break."""
