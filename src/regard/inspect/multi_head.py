"""The stages of one head of a multi-head attention (Vaswani et al. 2017), for one query.

q = W_q x,  k_j = W_k x_j,  v_j = W_v x_j,   a_j = softmax_j(q · k_j / √d),   c = Σ_j a_j v_j,   y = W_o [c_1; ...]
"""

import math

import numpy as np
from torch import nn

from regard.attention import MultiHeadAttention
from regard.inspect.calls import Call
from regard.inspect.results import Array, array
from regard.inspect.stages import Stage, numbers_of, reading, softmax, stage


def multi_head_stages(call: Call, row: int, query: int, head: int) -> list[Stage]:
    module = call.module
    assert isinstance(module, MultiHeadAttention)
    size = module.size // module.heads
    own = slice(head * size, (head + 1) * size)  # this head's rows of W_q, and its columns of W_o
    memory = call.memory_of(row, head)
    keys, values = memory.keys, memory.values
    x = array(call.given["states"][row, query])
    weight, bias = _query_projection(module)
    q = weight[own] @ x + bias[own]
    products = q * keys
    scores = products.sum(1) / math.sqrt(size)
    stages = [
        stage("input", "x", x, "The state of the query's token as it comes into this attention.", "size"),
        stage("query", "q = W_q x + b_q", q, "What this head asks for.", "size"),
        stage("keys", "k_j = W_k x_j + b_k", keys, "What each token can be found by.", "keys", "size"),
        stage("products", "q ∘ k_j", products, "Query times key, number by number.", "keys", "size"),
        stage("dot", "q · k_j = Σ (q ∘ k_j)", products.sum(1), "How well query and key agree.", "keys"),
        stage("scores", f"s_j = q · k_j / √{size}", scores, "Scaled, so that long vectors do not shout.", "keys"),
        *softmax(scores, memory.real & _visible(call, row, query, len(memory))),
    ]
    stages += reading(numbers_of(stages, "weights"), values, "v_j = W_v x_j + b_v")
    share = array(module.output.weight)[:, own] @ numbers_of(stages, "context")
    return [*stages, stage("share", "W_o c", share, "What this head adds to the output, beside the others.", "size")]


def _query_projection(module: MultiHeadAttention) -> tuple[Array, Array]:
    """W_q and b_q of all heads."""
    linear: nn.Linear = module.query_key_value if module.shares_projection else module.query
    weight = array(linear.weight)[: module.size]
    return weight, np.zeros(module.size) if linear.bias is None else array(linear.bias)[: module.size]


def _visible(call: Call, row: int, query: int, keys: int) -> Array:
    """Which keys this query may look at, be they real: none of the future, none outside a mask of its own."""
    visible, mask = np.ones(keys, dtype=bool), call.given["mask"]
    if mask is not None and mask.dim() == 3:
        visible &= array(mask[row if len(mask) > 1 else 0])[query if mask.shape[1] > 1 else 0]
    if call.given["causal"]:
        visible &= np.arange(keys) <= keys - call.queries + query
    return visible
