"""The mechanism: score -> align -> read. Pure torch, no model knowledge.

`attend` for plain tensors; `Attention(score, align)` for one attention with any score and alignment;
`MultiHeadAttention` for the Transformer family; `masks` for who may see what; `record` to look at exact weights.
"""

from regard.attention import masks
from regard.attention.alignments import ALIGNMENTS, Alignment, Hard, LocalMonotonic, LocalPredictive, Soft
from regard.attention.attention import Attention, named_attention
from regard.attention.dot_product import attend
from regard.attention.memory import Attended, Memory
from regard.attention.multihead import MultiHeadAttention
from regard.attention.recording import Tape, attentions, record_own
from regard.attention.scores import SCORES, Additive, Cosine, Dot, General, Location, ScaledDot, Score
from regard.attention.watching import record

__all__ = [
    "ALIGNMENTS",
    "SCORES",
    "Additive",
    "Alignment",
    "Attended",
    "Attention",
    "Cosine",
    "Dot",
    "General",
    "Hard",
    "LocalMonotonic",
    "LocalPredictive",
    "Location",
    "Memory",
    "MultiHeadAttention",
    "ScaledDot",
    "Score",
    "Soft",
    "Tape",
    "attend",
    "attentions",
    "masks",
    "named_attention",
    "record",
    "record_own",
]
