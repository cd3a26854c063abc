"""regard: attention models."""
