"""Experiments of papers as data: what was published, what is run here, and whether the two agree."""
