"""GPT-2 beside the reference implementation: the same weights say the same."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from regard.decoding.generate import generate
from regard.decoding.protocol import Vocabulary
from regard.decoding.settings import Decoding
from regard.models.gpt2 import GPT2, PUBLIC_TRANSPOSED, public_config, public_names, to_public_config
from regard.public.tensors import to_ours
from regard.tasks.continuation import Continuation

END, PAD = 50, -1
LENGTHS = (7, 2, 5, 1)


@pytest.fixture(scope="module", params=[True, False], ids=["tied", "untied"])
def pair(request: pytest.FixtureRequest) -> tuple[Any, GPT2]:
    """A tiny random model of theirs, and ours with its weights, both in double precision."""
    transformers = pytest.importorskip("transformers", reason="transformers, the reference, is not installed")
    torch.manual_seed(0)
    sizes = dict(vocab_size=51, n_positions=24, n_embd=32, n_layer=2, n_head=4, bos_token_id=END, eos_token_id=END)
    config = transformers.GPT2Config(**sizes, tie_word_embeddings=request.param)
    theirs = transformers.GPT2LMHeadModel(config).eval().double()
    for parameter in theirs.parameters():  # biases and norms too must be told apart, and tokens preferred
        torch.nn.init.normal_(parameter, std=0.3)
    ours = GPT2(public_config(config.to_dict())).eval().double()
    shapes = {name: tensor.shape for name, tensor in ours.state_dict().items()}
    names, copy = public_names(ours.config), {"lm_head.weight"} if request.param else ()
    ours.load_state_dict(to_ours(theirs.state_dict(), names, shapes, transposed=PUBLIC_TRANSPOSED, ignored=copy))
    assert torch.equal(ours.output_weight, ours.embedding.weight) == request.param
    return theirs, ours


def rows() -> list[Tensor]:
    draw = torch.Generator().manual_seed(1)
    return [torch.randint(0, END, (length,), generator=draw) for length in LENGTHS]


def batch(side: str) -> Tensor:
    filled = torch.full((len(LENGTHS), max(LENGTHS) + 1), PAD)
    for number, row in enumerate(rows()):
        filled[number, slice(-len(row), None) if side == "left" else slice(0, len(row))] = row
    return filled


def their_logits(theirs: Any, tokens: Tensor) -> Tensor:
    real = tokens != PAD
    places = (real.long().cumsum(1) - 1).clamp(min=0)
    found: Tensor = theirs(tokens.clamp(min=0), attention_mask=real.long(), position_ids=places).logits
    return found


@pytest.mark.parametrize("side", ["left", "right"])
def test_logits_and_gradients_are_the_same_with_padding_on_either_side(side: str, pair: tuple[Any, GPT2]) -> None:
    theirs, ours = pair
    tokens = batch(side)
    real = tokens != PAD
    expected, found = their_logits(theirs, tokens), ours(tokens)
    torch.testing.assert_close(found[real], expected[real], atol=1e-9, rtol=1e-9)

    theirs.zero_grad(), ours.zero_grad()
    for logits in (expected, found):
        logits[real].square().sum().backward()
    gradients = {name: each.grad for name, each in theirs.named_parameters()}
    for name, (other,) in public_names(ours.config).items():
        turned = name.endswith(tuple(PUBLIC_TRANSPOSED))
        gradient = gradients[other].T if turned else gradients[other]
        torch.testing.assert_close(ours.get_parameter(name).grad, gradient, atol=1e-7, rtol=1e-7)


def test_the_loss_is_the_same(pair: tuple[Any, GPT2]) -> None:
    theirs, ours = pair
    tokens = torch.randint(0, END, (3, 9), generator=torch.Generator().manual_seed(2))
    expected = theirs(tokens, labels=tokens).loss
    found = F.cross_entropy(ours(tokens)[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())
    torch.testing.assert_close(found.float(), expected)


def test_the_cache_is_the_same_as_theirs(pair: tuple[Any, GPT2]) -> None:
    theirs, ours = pair
    tokens = torch.randint(0, END, (2, 9), generator=torch.Generator().manual_seed(3))
    first = theirs(tokens[:, :5], use_cache=True)
    expected = theirs(tokens[:, 5:], past_key_values=first.past_key_values).logits
    _, carried = ours.read(tokens[:, :5])
    torch.testing.assert_close(ours.logits(ours.read(tokens[:, 5:], carried)[0]), expected)


def test_their_library_builds_the_same_sizes_from_our_config(pair: tuple[Any, GPT2]) -> None:
    transformers = pytest.importorskip("transformers")
    theirs, ours = pair
    again = transformers.GPT2LMHeadModel(transformers.GPT2Config(**to_public_config(ours.config)))
    assert {name: each.shape for name, each in again.state_dict().items()} == {
        name: each.shape for name, each in theirs.state_dict().items()
    }


@pytest.mark.parametrize("beams", [1, 3])
@pytest.mark.filterwarnings("ignore")
def test_prompts_of_different_lengths_are_gone_on_from_as_theirs(beams: int, pair: tuple[Any, GPT2]) -> None:
    """Greedy and by beam, in one batch and alone: the same tokens. Theirs pads on the left, ours where it likes."""
    theirs, ours = pair
    prompts = rows()
    tokens = batch("left")[:, 1:]
    written = theirs.generate(
        tokens.clamp(min=0),
        attention_mask=(tokens != PAD).long(),
        max_new_tokens=9,
        num_beams=beams,
        do_sample=False,
        pad_token_id=END,
        length_penalty=1.0,
        early_stopping=False,
    )[:, tokens.shape[1] :]
    expected = [row[: row.index(END)] if END in row else row for row in written.tolist()]
    settings = Decoding(num_beams=beams, max_new_tokens=9)
    decoder = Continuation(ours, END, PAD)
    found = generate(decoder, [prompt.tolist() for prompt in prompts], Vocabulary(END, END), settings, pad=PAD)
    assert [best[0].tokens for best in found] == expected
    for prompt, tokens_said in zip(prompts, expected, strict=True):
        ((alone, *_),) = generate(decoder, [prompt.tolist()], Vocabulary(END, END), settings, pad=PAD)
        assert alone.tokens == tokens_said
