"""Rollout by hand."""

import numpy as np

from regard.attention.rollout import rollout


def test_rollout_multiplies_half_attention_half_identity_up_the_layers() -> None:
    draw = np.random.default_rng(0)
    weights = draw.random((3, 2, 4, 4))
    weights /= weights.sum(-1, keepdims=True)
    flow = [[float(i == j) for j in range(4)] for i in range(4)]
    for layer in weights:
        mixed = [[0.5 * (i == j) + 0.25 * (layer[0, i, j] + layer[1, i, j]) for j in range(4)] for i in range(4)]
        flow = [[sum(mixed[i][k] * flow[k][j] for k in range(4)) for j in range(4)] for i in range(4)]
    np.testing.assert_allclose(rollout(weights), flow)
    np.testing.assert_allclose(rollout(weights).sum(-1), 1.0)


def test_one_layer_that_looks_at_one_token_gives_it_half() -> None:
    weights = np.zeros((1, 1, 3, 3))
    weights[..., 2] = 1
    assert rollout(weights)[0].tolist() == [0.5, 0.0, 0.5]
