"""One file per paper: its Config, its PRESETS, its model."""
