"""The Transformer's blocks against torch's own layers with the same weights."""

import pytest
import torch
from torch import Tensor, nn

from regard.attention import MultiHeadAttention
from regard.layers.blocks import BlockSizes, DecoderBlock, EncoderBlock, FeedForward, Residual

SIZE, HIDDEN, HEADS = 8, 12, 2
PADDINGS = {
    "no padding": None,
    "padding right": [[1, 1, 1, 1, 1], [1, 1, 1, 0, 0], [1, 0, 0, 0, 0]],
    "padding left": [[1, 1, 1, 1, 1], [0, 0, 1, 1, 1], [0, 0, 0, 0, 1]],
    "padding inside": [[1, 0, 1, 0, 1], [1, 1, 0, 1, 1], [0, 1, 0, 1, 0]],
}


def sizes(pre_norm: bool, dropout: float = 0.0) -> BlockSizes:
    return BlockSizes(SIZE, HIDDEN, HEADS, dropout, pre_norm)


def randomised(module: nn.Module) -> nn.Module:
    """No weight at its initial zero or one, so that a forgotten bias or norm shows."""
    torch.manual_seed(0)
    for name, parameter in module.named_parameters():
        nn.init.normal_(parameter, mean=1.0 if name.endswith("norm.weight") else 0.0, std=0.3)
    return module.eval()


def copy_attention(theirs: nn.MultiheadAttention, ours: MultiHeadAttention) -> None:
    theirs.in_proj_weight.data.copy_(ours.query_key_value.weight)
    theirs.in_proj_bias.data.copy_(ours.query_key_value.bias)
    theirs.out_proj.load_state_dict(ours.output.state_dict())


def their_encoder(ours: EncoderBlock, pre_norm: bool) -> nn.TransformerEncoderLayer:
    theirs = nn.TransformerEncoderLayer(SIZE, HEADS, HIDDEN, dropout=0.0, batch_first=True, norm_first=pre_norm).eval()
    copy_attention(theirs.self_attn, ours.self_attention)
    theirs.linear1.load_state_dict(ours.feed_forward.expand.state_dict())
    theirs.linear2.load_state_dict(ours.feed_forward.contract.state_dict())
    theirs.norm1.load_state_dict(ours.around_self_attention.norm.state_dict())
    theirs.norm2.load_state_dict(ours.around_feed_forward.norm.state_dict())
    return theirs


def their_decoder(ours: DecoderBlock, pre_norm: bool) -> nn.TransformerDecoderLayer:
    theirs = nn.TransformerDecoderLayer(SIZE, HEADS, HIDDEN, dropout=0.0, batch_first=True, norm_first=pre_norm).eval()
    copy_attention(theirs.self_attn, ours.self_attention)
    copy_attention(theirs.multihead_attn, ours.cross_attention)
    theirs.linear1.load_state_dict(ours.feed_forward.expand.state_dict())
    theirs.linear2.load_state_dict(ours.feed_forward.contract.state_dict())
    theirs.norm1.load_state_dict(ours.around_self_attention.norm.state_dict())
    theirs.norm2.load_state_dict(ours.around_cross_attention.norm.state_dict())
    theirs.norm3.load_state_dict(ours.around_feed_forward.norm.state_dict())
    return theirs


def mask_of(padding: str) -> Tensor | None:
    rows = PADDINGS[padding]
    return None if rows is None else torch.tensor(rows, dtype=torch.bool)


def assert_same_where_real(ours: Tensor, theirs: Tensor, mask: Tensor | None) -> None:
    real = torch.ones(ours.shape[:2], dtype=torch.bool) if mask is None else mask
    torch.testing.assert_close(ours[real], theirs[real], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("pre_norm", [False, True])
@pytest.mark.parametrize("padding", PADDINGS)
def test_an_encoder_block_is_torchs_encoder_layer(padding: str, pre_norm: bool) -> None:
    block = randomised(EncoderBlock(sizes(pre_norm)))
    states, mask = torch.randn(3, 5, SIZE), mask_of(padding)
    theirs = their_encoder(block, pre_norm)(states, src_key_padding_mask=None if mask is None else ~mask)
    assert_same_where_real(block(states, mask), theirs, mask)


@pytest.mark.parametrize("pre_norm", [False, True])
@pytest.mark.parametrize("padding", ["no padding", "padding right"])  # in torch, rows before the first token are NaN
@pytest.mark.parametrize("source_padding", PADDINGS)
def test_a_decoder_block_is_torchs_decoder_layer(padding: str, source_padding: str, pre_norm: bool) -> None:
    block = randomised(DecoderBlock(sizes(pre_norm)))
    states, source = torch.randn(3, 5, SIZE), torch.randn(3, 5, SIZE)
    mask, source_mask = mask_of(padding), mask_of(source_padding)
    ours, _ = block(states, block.cross_attention.remember(source, source_mask), mask)
    theirs = their_decoder(block, pre_norm)(
        states,
        source,
        tgt_mask=torch.ones(5, 5, dtype=torch.bool).triu(1),
        tgt_key_padding_mask=None if mask is None else ~mask,
        memory_key_padding_mask=None if source_mask is None else ~source_mask,
    )
    assert_same_where_real(ours, theirs, mask)


@pytest.mark.parametrize("pre_norm", [False, True])
def test_a_decoder_block_that_steps_says_what_the_whole_pass_says(pre_norm: bool) -> None:
    block = randomised(DecoderBlock(sizes(pre_norm)))
    states = torch.randn(3, 5, SIZE)
    source = block.cross_attention.remember(torch.randn(3, 4, SIZE))
    whole, memory = block(states, source)
    past, steps = None, []
    for place in range(5):
        said, past = block(states[:, place : place + 1], source, None, past)
        steps.append(said)
    torch.testing.assert_close(torch.cat(steps, dim=1), whole, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(past.keys, memory.keys, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("pre_norm", [False, True])
def test_a_residual_is_its_equation(pre_norm: bool) -> None:
    around = randomised(Residual(sizes(pre_norm)))
    states = torch.randn(2, 3, SIZE)
    if pre_norm:
        expected = states + torch.tanh(around.norm(states))
    else:
        expected = around.norm(states + torch.tanh(states))
    assert torch.equal(around(states, torch.tanh), expected)


@pytest.mark.parametrize("pre_norm", [False, True])
def test_dropout_touches_the_sublayer_and_never_the_residual(pre_norm: bool) -> None:
    around = Residual(sizes(pre_norm, dropout=0.5))
    torch.manual_seed(0)
    states = torch.randn(2, 3, SIZE)
    nothing = around(states, torch.zeros_like)
    assert torch.equal(nothing, states if pre_norm else around.norm(states))
    assert not torch.equal(around(states, torch.ones_like), around(states, torch.ones_like))


def test_the_feed_forward_net_treats_every_position_alike() -> None:
    net = randomised(FeedForward(SIZE, HIDDEN))
    states = torch.randn(2, 3, SIZE)
    for row in range(2):
        for place in range(3):
            hidden = (net.expand.weight @ states[row, place] + net.expand.bias).clamp(min=0)
            expected = net.contract.weight @ hidden + net.contract.bias
            torch.testing.assert_close(net(states)[row, place], expected, atol=1e-5, rtol=1e-5)
