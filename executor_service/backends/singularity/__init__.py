"""Boxes made by Apptainer or Singularity from an image."""
