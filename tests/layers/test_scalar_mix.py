"""One vector from many layers."""

import torch

from regard.layers.scalar_mix import ScalarMix


def test_a_mix_is_the_weighted_sum_of_the_layers_times_gamma() -> None:
    mix, layers = ScalarMix(3), torch.randn(3, 2, 5, 4)
    torch.nn.init.normal_(mix.weights)
    torch.nn.init.constant_(mix.gamma, 1.7)
    raised = mix.weights.exp()
    expected = sum(1.7 * raised[j] / raised.sum() * layers[j] for j in range(3))
    torch.testing.assert_close(mix(layers), expected)


def test_at_first_all_layers_are_worth_the_same() -> None:
    layers = torch.randn(3, 2, 4)
    torch.testing.assert_close(ScalarMix(3)(layers), layers.mean(0))
