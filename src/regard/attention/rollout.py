"""Attention through all layers at once: rollout (Abnar and Zuidema 2020).

    R_0 = I,   R_l = (I + mean over heads of W_l) / 2 · R_{l-1}

Half of each layer passes by on the residual connection; what is left at the end says how much of each token of the
input is in each token of the top.
"""

import numpy as np


def mixed(weights: np.ndarray) -> np.ndarray:
    """(I + W) / 2 of every layer [layers, tokens, tokens], from the weights of all heads [layers, heads, tokens,
    tokens]."""
    return (np.eye(weights.shape[-1]) + weights.mean(axis=1, dtype=np.float64)) / 2


def rollout(weights: np.ndarray) -> np.ndarray:
    """From the weights of all layers [layers, heads, tokens, tokens] to one matrix: what each token got from each."""
    flow = np.eye(weights.shape[-1])
    for layer in mixed(weights):
        flow = layer @ flow
    return flow
