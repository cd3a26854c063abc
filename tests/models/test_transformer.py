"""The Transformer against torch's own stack, against the paper's sizes, and against itself step by step."""

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention import MultiHeadAttention
from regard.layers.positions import sinusoids
from regard.models.transformer import PRESETS, Config, Transformer

TINY = Config(vocabulary=13, size=8, hidden_size=12, heads=2, encoder_layers=2, decoder_layers=3, dropout=0.0)
SOURCE = torch.tensor([[5, 6, 7, 8, 2], [9, 10, 2, 0, 0], [2, 0, 0, 0, 0]])
TARGET = torch.tensor([[1, 4, 5, 6], [1, 7, 8, 0], [1, 0, 0, 0]])


def tiny(**changes: object) -> Transformer:
    """Every parameter away from its initial zero or one, so that a forgotten bias or norm shows."""
    torch.manual_seed(0)
    model = Transformer(replace(TINY, **changes))
    for name, parameter in model.named_parameters():
        nn.init.normal_(parameter, mean=1.0 if name.endswith("norm.weight") else 0.0, std=0.3)
    return model.eval()


def copy_attention(theirs: nn.MultiheadAttention, ours: MultiHeadAttention) -> None:
    theirs.in_proj_weight.data.copy_(ours.query_key_value.weight)
    theirs.in_proj_bias.data.copy_(ours.query_key_value.bias)
    theirs.out_proj.load_state_dict(ours.output.state_dict())


def torchs_own(model: Transformer) -> nn.Transformer:
    config = model.config
    options = dict(dropout=0.0, batch_first=True, norm_first=config.pre_norm)
    encoder = nn.TransformerEncoder(
        nn.TransformerEncoderLayer(config.size, config.heads, config.hidden_size, **options),
        config.encoder_layers,
        norm=nn.LayerNorm(config.size) if config.pre_norm else None,
        enable_nested_tensor=False,
    )
    decoder = nn.TransformerDecoder(
        nn.TransformerDecoderLayer(config.size, config.heads, config.hidden_size, **options),
        config.decoder_layers,
        norm=nn.LayerNorm(config.size) if config.pre_norm else None,
    )
    # Its constructor draws every weight anew, so it comes before the copying.
    whole = nn.Transformer(config.size, config.heads, custom_encoder=encoder, custom_decoder=decoder, batch_first=True)
    for theirs, ours in zip(encoder.layers, model.encoder.layers, strict=True):
        copy_attention(theirs.self_attn, ours.self_attention)
        theirs.norm1.load_state_dict(ours.around_self_attention.norm.state_dict())
        theirs.norm2.load_state_dict(ours.around_feed_forward.norm.state_dict())
    for theirs, ours in zip(decoder.layers, model.decoder.layers, strict=True):
        copy_attention(theirs.self_attn, ours.self_attention)
        copy_attention(theirs.multihead_attn, ours.cross_attention)
        theirs.norm1.load_state_dict(ours.around_self_attention.norm.state_dict())
        theirs.norm2.load_state_dict(ours.around_cross_attention.norm.state_dict())
        theirs.norm3.load_state_dict(ours.around_feed_forward.norm.state_dict())
    for theirs, ours in ((encoder, model.encoder), (decoder, model.decoder)):
        for their_layer, our_layer in zip(theirs.layers, ours.layers, strict=True):
            their_layer.linear1.load_state_dict(our_layer.feed_forward.expand.state_dict())
            their_layer.linear2.load_state_dict(our_layer.feed_forward.contract.state_dict())
        if config.pre_norm:
            theirs.norm.load_state_dict(ours.norm.state_dict())
    return whole.eval()


def embedded(model: Transformer, tokens: Tensor) -> Tensor:
    """sqrt(d) E[token] + PE(position), for tokens that are padded on the right."""
    places = sinusoids(tokens.shape[1], model.config.size)
    return math.sqrt(model.config.size) * model.embedding.weight[tokens] + places


@pytest.mark.parametrize("pre_norm", [False, True])
def test_the_whole_model_is_torchs_transformer_with_the_same_weights(pre_norm: bool) -> None:
    model = tiny(pre_norm=pre_norm)
    length = TARGET.shape[1]
    states = torchs_own(model)(
        embedded(model, SOURCE),
        embedded(model, TARGET),
        tgt_mask=torch.ones(length, length, dtype=torch.bool).triu(1),
        src_key_padding_mask=SOURCE == 0,
        tgt_key_padding_mask=TARGET == 0,
        memory_key_padding_mask=SOURCE == 0,
    )
    expected = F.linear(states, model.embedding.weight)
    real = TARGET != 0
    torch.testing.assert_close(model(SOURCE, TARGET)[real], expected[real], atol=1e-5, rtol=1e-5)


def test_one_matrix_embeds_the_source_and_the_target_and_gives_the_output() -> None:
    model = tiny()
    assert model.output_weight is model.embedding.weight
    wide = [name for name, parameter in model.named_parameters() if TINY.vocabulary in parameter.shape]
    assert wide == ["embedding.weight"]
    before = model.encode(SOURCE)[0], model(SOURCE, TARGET)
    model.embedding.weight.data[2] += 1.0  # the end of every source, which no target holds
    assert not torch.allclose(model.encode(SOURCE)[0], before[0])
    model.embedding.weight.data[2] -= 1.0
    model.embedding.weight.data[11] += 1.0  # in neither: only its own logit can change
    changed = (model(SOURCE, TARGET) - before[1]).abs().amax((0, 1)) > 1e-4
    assert changed.nonzero().flatten().tolist() == [11]


def test_embeddings_are_scaled_by_the_root_of_their_size() -> None:
    model = tiny()
    told = model.embed(TARGET[:1], None) - sinusoids(4, TINY.size)
    torch.testing.assert_close(told, math.sqrt(TINY.size) * model.embedding.weight[TARGET[:1]], atol=1e-5, rtol=1e-5)


def test_fresh_embeddings_enter_the_network_with_a_deviation_of_one() -> None:
    torch.manual_seed(0)
    model = Transformer(replace(TINY, vocabulary=500, size=64))
    deviation = math.sqrt(64) * model.embedding.weight.std().item()
    assert deviation == pytest.approx(1.0, rel=0.02)


def parameters(preset: str) -> int:
    with torch.device("meta"):
        model = Transformer(Config(vocabulary=37_000, **PRESETS[preset]))
    return sum(parameter.numel() for parameter in model.parameters())


def test_the_base_model_has_the_papers_number_of_parameters() -> None:
    assert parameters("base") == 63_082_496
    assert parameters("base") == pytest.approx(65e6, rel=0.04)  # the paper's own, rounded count


def test_the_big_model_has_the_papers_number_of_parameters() -> None:
    assert parameters("big") == pytest.approx(213e6, rel=0.05)


def test_the_presets_have_the_papers_sizes() -> None:
    base, big = Config(vocabulary=1, **PRESETS["base"]), Config(vocabulary=1, **PRESETS["big"])
    for config, size, hidden, heads, dropout in ((base, 512, 2048, 8, 0.1), (big, 1024, 4096, 16, 0.3)):
        assert (config.size, config.hidden_size, config.heads, config.dropout) == (size, hidden, heads, dropout)
        assert config.encoder_layers == config.decoder_layers == 6
        assert not config.pre_norm


@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
@pytest.mark.parametrize("pre_norm", [False, True])
def test_cached_steps_say_what_the_full_pass_says(pre_norm: bool, positions: str) -> None:
    model = tiny(pre_norm=pre_norm, positions=positions, max_length=8)
    target = torch.tensor([[1, 4, 5, 6, 7], [1, 7, 8, 9, 3], [1, 3, 3, 4, 12]])
    whole = model(SOURCE, target)
    state = model.start(SOURCE)
    for place in range(target.shape[1]):
        logits, state = model.step(target[:, place], state)
        torch.testing.assert_close(logits, whole[:, place], atol=1e-5, rtol=1e-5)
        assert state.place.tolist() == [place + 1] * 3


@pytest.mark.parametrize("place", [1, 2, 3])
def test_a_later_target_token_changes_no_earlier_logits(place: int) -> None:
    model = tiny()
    target = torch.tensor([[1, 4, 5, 6]])
    changed = target.clone()
    changed[0, place] = 12
    before, after = model(SOURCE[:1], target), model(SOURCE[:1], changed)
    torch.testing.assert_close(after[:, :place], before[:, :place], atol=1e-6, rtol=0)
    assert not torch.allclose(after[:, place], before[:, place], atol=1e-3)


def test_every_source_token_may_change_every_logit() -> None:
    model = tiny()
    target = torch.tensor([[1, 4, 5, 6]])
    before = model(SOURCE[:1], target)
    for place in range(SOURCE.shape[1]):
        changed = SOURCE[:1].clone()
        changed[0, place] = 12
        assert ((model(changed, target) - before).abs().amax(-1) > 1e-5).all()


def test_sinusoidal_positions_read_beyond_the_table_and_learned_ones_refuse() -> None:
    source = torch.full((1, 9), 5)
    long, short = tiny(max_length=16), tiny(max_length=4)
    torch.testing.assert_close(short(source, TARGET[:1]), long(source, TARGET[:1]))
    with pytest.raises(Exception, match="9 tokens is longer than the 4 learnt positions"):
        tiny(max_length=4, positions="learned")(source, TARGET[:1])


def test_dropout_works_while_training_only() -> None:
    model = tiny(dropout=0.5)
    assert torch.equal(model(SOURCE, TARGET), model(SOURCE, TARGET))
    model.train()
    assert not torch.equal(model(SOURCE, TARGET), model(SOURCE, TARGET))


def test_attentions_know_their_kind_and_layer() -> None:
    assert Transformer.attention_kind("encoder.layers.1.self_attention") == "encoder"
    assert Transformer.attention_kind("decoder.layers.1.self_attention") == "decoder"
    assert Transformer.attention_kind("decoder.layers.1.cross_attention") == "cross"
    assert Transformer.attention_layer("decoder.layers.0.cross_attention") == 1
    assert Transformer.attention_layer("encoder.layers.11.self_attention") == 12
