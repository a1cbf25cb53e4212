"""Finished turns as samples that a model can be trained on."""
