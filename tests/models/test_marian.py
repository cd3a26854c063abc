"""Marian, the Transformer with its variations, against `transformers`, whose small random models need no download."""

import math
from typing import Any

import pytest
import torch
from jaxtyping import config as shape_checks
from torch import Tensor

from regard.decoding.generate import generate, padded
from regard.decoding.protocol import Hypothesis, Vocabulary
from regard.decoding.settings import Decoding
from regard.errors import UsageError
from regard.models import transformer
from regard.models.transformer import PRESETS, Config, Transformer
from regard.public.tensors import as_in_table, to_ours, to_theirs
from regard.tasks.batches import Batch
from regard.tasks.translate import sequence_loss

PAD, END, VOCABULARY = 22, 0, 23
VALUES: dict[str, Any] = dict(
    vocab_size=VOCABULARY,
    d_model=16,
    encoder_layers=2,
    decoder_layers=3,
    encoder_ffn_dim=24,
    decoder_ffn_dim=24,
    encoder_attention_heads=4,
    decoder_attention_heads=4,
    activation_function="swish",
    scale_embedding=True,
    max_position_embeddings=32,
    pad_token_id=PAD,
    decoder_start_token_id=PAD,
    eos_token_id=END,
    forced_eos_token_id=END,
    dropout=0.0,
)
SOURCE = torch.tensor([[5, 6, 7, 8, END], [9, 10, END, PAD, PAD], [END, PAD, PAD, PAD, PAD]])
SAID = torch.tensor([[3, 4, 5, END], [7, END, PAD, PAD], [END, PAD, PAD, PAD]])
TOLD = torch.tensor([[PAD, 3, 4, 5], [PAD, 7, PAD, PAD], [PAD, PAD, PAD, PAD]])
REAL = SAID != PAD


def theirs_with(values: dict[str, Any], seed: int = 0) -> Any:
    """Every tensor away from its initial zero or one, the start's embedding and the output's bias too."""
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(seed)
    model = transformers.MarianMTModel(transformers.MarianConfig(**values)).eval()
    for name, parameter in model.named_parameters():
        if "embed_positions" not in name:
            mean = 1.0 if "layer_norm.weight" in name else 0.0
            torch.nn.init.normal_(parameter, mean=mean, std=0.3)
    model.final_logits_bias.normal_()
    return model


def ours_from(model: Any) -> Transformer:
    config = transformer.public_config(model.config.to_dict())
    ours = Transformer(config).to(model.dtype).eval()
    names = transformer.public_names(config)
    found = as_in_table(model.state_dict(), names, transformer.PUBLIC_PREFIX, transformer.PUBLIC_TIED)
    shapes = {name: tensor.shape for name, tensor in ours.state_dict().items()}
    taken = to_ours(found, names, shapes, transposed=transformer.PUBLIC_TRANSPOSED, ignored=transformer.PUBLIC_UNREAD)
    ours.load_state_dict(taken)
    return ours


@pytest.fixture(scope="module")
def theirs() -> Any:
    return theirs_with(VALUES)


@pytest.fixture(scope="module")
def ours(theirs: Any) -> Transformer:
    return ours_from(theirs)


def their_logits(model: Any, source: Tensor = SOURCE, told: Tensor = TOLD) -> Tensor:
    with torch.no_grad():
        return model(input_ids=source, attention_mask=source != PAD, decoder_input_ids=told).logits


def test_logits_are_those_of_transformers(theirs: Any, ours: Transformer) -> None:
    torch.testing.assert_close(ours(SOURCE, TOLD)[REAL], their_logits(theirs)[REAL], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("changes", [{"activation_function": "relu"}, {"scale_embedding": False}, {"d_model": 12}])
def test_other_settings_give_the_same_logits_too(changes: dict[str, Any]) -> None:
    model = theirs_with(VALUES | changes)
    torch.testing.assert_close(ours_from(model)(SOURCE, TOLD)[REAL], their_logits(model)[REAL], atol=1e-4, rtol=1e-4)


def test_in_double_precision_nothing_but_the_position_table_is_rounded() -> None:
    model = theirs_with(VALUES).double()
    ours = ours_from(model)
    table = model.model.encoder.embed_positions.weight
    torch.testing.assert_close(ours.positions.table, table, atol=1e-7, rtol=0)
    ours.positions.table = table.clone()
    torch.testing.assert_close(ours(SOURCE, TOLD)[REAL], their_logits(model)[REAL], atol=1e-12, rtol=1e-12)


def test_loss_and_gradients_are_those_of_transformers(theirs: Any, ours: Transformer) -> None:
    theirs.zero_grad(), ours.zero_grad()
    labels = SAID.masked_fill(~REAL, -100)
    expected = theirs(input_ids=SOURCE, attention_mask=SOURCE != PAD, labels=labels).loss
    expected.backward()
    loss = sequence_loss(ours, Batch(SOURCE, TOLD, SAID), PAD)
    (loss.total / loss.count).backward()
    torch.testing.assert_close((loss.total / loss.count).float(), expected, atol=1e-5, rtol=1e-5)
    gradients = {name: known.grad for name, known in theirs.named_parameters() if known.grad is not None}
    found = {name: known.grad for name, known in ours.named_parameters() if name != "output_bias"}
    names = {name: several for name, several in transformer.public_names(ours.config).items() if name != "output_bias"}
    assert set(gradients) == {name for several in names.values() for name in several}
    for name, several in names.items():
        wanted = torch.cat([gradients[other] for other in several])
        torch.testing.assert_close(found[name], wanted, atol=1e-4, rtol=1e-4, msg=name)


def test_the_bias_of_the_output_learns_what_the_logits_say_of_it(ours: Transformer) -> None:
    ours.zero_grad()
    loss = sequence_loss(ours, Batch(SOURCE, TOLD, SAID), PAD, smoothing=0.1)
    loss.total.backward()
    logits = ours(SOURCE, TOLD)[REAL].detach().requires_grad_()
    smoothed = torch.nn.functional.cross_entropy(logits, SAID[REAL], reduction="sum", label_smoothing=0.1)
    smoothed.backward()
    assert ours.output_bias is not None
    torch.testing.assert_close(loss.total.float(), smoothed, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(ours.output_bias.grad.squeeze(1), logits.grad.sum(0), atol=1e-5, rtol=1e-5)


def test_cached_steps_say_what_the_full_pass_says(theirs: Any, ours: Transformer) -> None:
    whole, state = their_logits(theirs), ours.start(SOURCE)
    for place in range(TOLD.shape[1]):
        logits, state = ours.step(TOLD[:, place], state)
        live = REAL[:, place]
        torch.testing.assert_close(logits[live], whole[live, place], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("extra", [0, 1, 3])
def test_a_start_that_is_spelt_like_padding_is_found_on_either_side(ours: Transformer, extra: int) -> None:
    for row in range(len(TOLD)):
        count = int(REAL[row].sum())
        told = TOLD[row, :count]
        padding = told.new_full((extra,), PAD)
        alone = ours(SOURCE[row : row + 1], told[None])[0]
        right = ours(SOURCE[row : row + 1], torch.cat([told, padding])[None])[0, :count]
        left = ours(SOURCE[row : row + 1], torch.cat([padding, told])[None])[0, extra:]
        torch.testing.assert_close(right, alone, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(left, alone, atol=1e-5, rtol=1e-5)


def their_sentences(model: Any, sources: Tensor, **options: Any) -> tuple[list[list[int]], list[float] | None]:
    """What `generate` says, without the start, the end and the padding; and how it ranks it."""
    with torch.no_grad():
        said = model.generate(
            input_ids=sources,
            attention_mask=sources != PAD,
            bad_words_ids=[[PAD]],
            return_dict_in_generate=True,
            output_scores=True,
            do_sample=False,
            **options,
        )
    rows = [[token for token in row[1:].tolist() if token not in (PAD, END)] for row in said.sequences]
    scores = said.sequences_scores.tolist() if "sequences_scores" in said else None
    return rows, scores


def our_sentences(model: Transformer, sources: Tensor, settings: Decoding) -> list[list[Hypothesis]]:
    rows = [row[row != PAD].tolist() for row in sources]
    return generate(model, rows, Vocabulary(PAD, END, never=(PAD,)), settings, pad=PAD)


def many_sources(count: int = 12) -> Tensor:
    """Of one to nine tokens."""
    draw = torch.Generator().manual_seed(1)
    rows = torch.randint(1, PAD, (count, 10), generator=draw)
    for row in range(count):
        rows[row, row % 9 + 1] = END
        rows[row, row % 9 + 2 :] = PAD
    return rows


@pytest.fixture(scope="module")
def speaker() -> tuple[Any, Transformer]:
    """A random model repeats one token for ever. This one has half learnt to reverse: it ends, and it is unsure."""
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    values = VALUES | dict(encoder_layers=1, decoder_layers=2)
    ours = Transformer(transformer.public_config(values))
    optimizer = torch.optim.Adam(ours.parameters(), lr=0.02)
    shape_checks.update("jaxtyping_disable", True)  # they would cost more than the learning
    for _ in range(50):
        rows = [torch.randint(1, PAD, (int(torch.randint(1, 9, ())),)).tolist() for _ in range(16)]
        read = padded([[*row, END] for row in rows], PAD)
        told, said = (
            padded(side, PAD) for side in zip(*(([PAD, *r[::-1]], [*r[::-1], END]) for r in rows), strict=True)
        )
        optimizer.zero_grad()
        sequence_loss(ours, Batch(read, told, said), PAD).total.div(read.numel()).backward()
        optimizer.step()
    shape_checks.update("jaxtyping_disable", False)
    ours.output_bias.data[PAD] = 3.0  # what padding gives to others must be seen
    theirs = in_transformers(ours.eval(), transformers)
    theirs.generation_config.forced_eos_token_id = None
    return theirs, ours


def in_transformers(ours: Transformer, transformers: Any) -> Any:
    config = transformers.MarianConfig(**transformer.to_public_config(ours.config), eos_token_id=END)
    back = transformers.MarianMTModel(config).eval()
    names = transformer.public_names(ours.config)
    state = to_theirs(ours.state_dict(), names, transposed=transformer.PUBLIC_TRANSPOSED)
    missing, unexpected = back.load_state_dict(state, strict=False)
    back.tie_weights()
    tables = {f"model.{stack}.embed_positions.weight" for stack in ("encoder", "decoder")}
    assert unexpected == []
    assert set(missing) <= transformer.PUBLIC_TIED.keys() | tables
    return back


def test_greedy_sentences_are_those_of_transformers(speaker: tuple[Any, Transformer]) -> None:
    theirs, ours = speaker
    expected, _ = their_sentences(theirs, many_sources(), num_beams=1, max_new_tokens=14)
    found = our_sentences(ours, many_sources(), Decoding(num_beams=1, max_new_tokens=14))
    assert [best[0].tokens for best in found] == expected
    assert len({len(row) for row in expected}) > 3


@pytest.mark.parametrize("renormalize", [False, True])
@pytest.mark.parametrize(("beams", "penalty"), [(2, 1.0), (4, 0.6), (4, 2.0)])
def test_beams_are_those_of_transformers(
    speaker: tuple[Any, Transformer], beams: int, penalty: float, renormalize: bool
) -> None:
    theirs, ours = speaker
    options: dict[str, Any] = dict(
        num_beams=beams, length_penalty=penalty, max_new_tokens=14, renormalize_logits=renormalize
    )
    expected, scores = their_sentences(theirs, many_sources(), **options, num_return_sequences=beams)
    said = [known for best in our_sentences(ours, many_sources(), Decoding(**options)) for known in best]
    assert [known.tokens for known in said] == expected
    assert scores == pytest.approx([known.score for known in said], abs=1e-4)


def test_at_the_limit_their_forced_end_counts_one_token_more(theirs: Any, ours: Transformer) -> None:
    """The one difference of the scores: they add an end of probability one, we rank the sentence as it stands."""
    expected, scores = their_sentences(theirs, many_sources(4), num_beams=3, max_new_tokens=5)
    found = our_sentences(ours, many_sources(4), Decoding(num_beams=3, max_new_tokens=4))
    assert [best[0].tokens for best in found] == expected
    assert not any(best[0].finished for best in found)
    assert scores == pytest.approx([best[0].log_probability / 5 for best in found], abs=1e-4)


def test_back_in_transformers_the_logits_are_the_same(ours: Transformer) -> None:
    back = in_transformers(ours, pytest.importorskip("transformers"))
    torch.testing.assert_close(their_logits(back)[REAL], ours(SOURCE, TOLD)[REAL], atol=1e-5, rtol=1e-5)
    assert transformer.public_config(back.config.to_dict()) == ours.config


OPUS_EN_DE = VALUES | dict(
    vocab_size=58101,
    d_model=512,
    encoder_layers=6,
    decoder_layers=6,
    encoder_ffn_dim=2048,
    decoder_ffn_dim=2048,
    encoder_attention_heads=8,
    decoder_attention_heads=8,
    max_position_embeddings=512,
    pad_token_id=58100,
    decoder_start_token_id=58100,
    dropout=0.1,
)


def test_the_preset_is_opus_mt_en_de_with_its_number_of_parameters() -> None:
    transformers = pytest.importorskip("transformers")
    config = transformer.public_config(OPUS_EN_DE)
    assert config == Config(vocabulary=58101, pad=58100, starts_with_pad=True, **PRESETS["opus"])  # type: ignore[arg-type]
    with torch.device("meta"):
        theirs, ours = transformers.MarianMTModel(transformers.MarianConfig(**OPUS_EN_DE)), Transformer(config)
    published = sum(parameter.numel() for parameter in theirs.parameters())
    assert published == 74_410_496
    # They count two tables of positions as parameters; we the bias of the output, which they keep fixed.
    assert sum(known.numel() for known in ours.parameters()) == published - 2 * 512 * 512 + 58101


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("share_encoder_decoder_embeddings", False),
        ("tie_word_embeddings", False),
        ("normalize_before", True),
        ("normalize_embedding", True),
        ("static_position_embeddings", False),
        ("add_final_layer_norm", True),
        ("decoder_vocab_size", 24),
        ("decoder_ffn_dim", 48),
        ("decoder_attention_heads", 2),
        ("decoder_start_token_id", 3),
        ("activation_function", "quick_gelu"),
    ],
)
def test_a_setting_that_is_not_here_is_refused_by_its_name(key: str, value: Any) -> None:
    with pytest.raises(UsageError, match=rf"config.json: {key} .*{value}") as caught:
        transformer.public_config(VALUES | {key: value})
    assert "\n" not in str(caught.value)


def test_a_transformer_that_marian_has_not_is_not_exported_as_one() -> None:
    with pytest.raises(UsageError, match="positions 'sinusoidal_halves', but this model 'sinusoidal'"):
        transformer.to_public_config(Config(vocabulary=9))
    with pytest.raises(UsageError, match="pre_norm False"):
        transformer.to_public_config(Config(vocabulary=9, positions="sinusoidal_halves", pre_norm=True))


def test_the_fields_of_the_variations_leave_the_papers_model_as_it_is() -> None:
    torch.manual_seed(0)
    model = Transformer(Config(vocabulary=9, size=8, hidden_size=12, heads=2, encoder_layers=1, decoder_layers=1))
    assert "output_bias" not in model.state_dict()
    assert model.output_bias is None
    assert model.scale == math.sqrt(8)
    states, words = model.comparison(torch.randn(3, 8))
    assert words is model.output_weight
    assert states.shape == (3, 8)
