"""The web page in which a model is looked at, and its server."""
