"""Spoilt files for every loader: how they are spoilt, what is loaded, and how a case is run and judged."""
