"""Pictures of attention, from plain arrays and strings.

A view draws an `AttentionMap` and knows nothing of models: heat maps as PNG or SVG, shades for a terminal, and one
HTML file in which a reader can look at every head of every layer.
"""

from regard.views.heatmap import heads_figure, heatmap
from regard.views.maps import AttentionMap, display, mean_heads, merge_words
from regard.views.page import Example, attention_page
from regard.views.terminal import terminal

__all__ = [
    "AttentionMap",
    "Example",
    "attention_page",
    "display",
    "heads_figure",
    "heatmap",
    "mean_heads",
    "merge_words",
    "terminal",
]
