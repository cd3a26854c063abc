"""Beams that share one memory find what beams with a row each find."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from regard.decoding.beam import beam_search
from regard.decoding.beams import Apart, Together, carry
from regard.decoding.protocol import Vocabulary
from regard.models.transformer import Config, Transformer

WORDS = Vocabulary(start=1, end=2, never=(0, 1))


def model(**changes: Any) -> Transformer:
    torch.manual_seed(0)
    sizes = dict(vocabulary=12, size=8, hidden_size=16, heads=2, encoder_layers=2, decoder_layers=2, max_length=40)
    made = Transformer(Config(**{**sizes, **changes})).eval()
    for parameter in made.parameters():  # sharper than at birth, so that hypotheses differ and end at different times
        parameter.data *= 3
    return made


def a_row_each(decoder: Transformer) -> Any:
    return SimpleNamespace(start=decoder.start, step=decoder.step)


def sources(count: int) -> torch.Tensor:
    made = torch.randint(3, 12, (count, 6), generator=torch.Generator().manual_seed(1))
    for row in range(count):
        made[row, 6 - row % 4 :] = 0  # padding
    return made


@pytest.mark.parametrize("beams", [1, 2, 5, 9])
@pytest.mark.parametrize("pre_norm", [True, False])
def test_beams_together_find_what_beams_apart_find(beams: int, pre_norm: bool) -> None:
    decoder = model(pre_norm=pre_norm)
    limits = [4, 9, 15, 2, 15, 6, 1]
    together, apart = (
        beam_search(each, sources(7), WORDS, limits, beams=beams) for each in (decoder, a_row_each(decoder))
    )
    for known, other in zip(together, apart, strict=True):
        assert [each.tokens for each in known] == [each.tokens for each in other]
        for one, two in zip(known, other, strict=True):
            assert one.score == pytest.approx(two.score, abs=1e-4)
    assert len({len(found[0].tokens) for found in together}) > 2  # sentences left at different times


def test_the_source_is_never_copied_for_a_beam() -> None:
    decoder = model()
    with torch.inference_mode():
        carried = carry(decoder, sources(3))
        assert isinstance(carried, Together)
        keys = carried.state.sources[0].keys
        assert len(keys) == 3
        carried.step(torch.ones(3, 1, dtype=torch.long))
        carried.go_on(torch.arange(3), torch.zeros(3, 5, dtype=torch.long))
        assert carried.state.sources[0].keys is keys


def test_a_decoder_that_knows_no_beams_has_a_row_for_each() -> None:
    with torch.inference_mode():
        carried = carry(a_row_each(model()), sources(3))
        assert isinstance(carried, Apart)
        carried.step(torch.ones(3, 1, dtype=torch.long))
        carried.go_on(torch.arange(3), torch.zeros(3, 5, dtype=torch.long))
    assert len(carried.state.place) == 15
