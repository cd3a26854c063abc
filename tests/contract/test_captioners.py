"""What every captioner must satisfy beyond the contract: the decoding protocol, and attention one can name."""

from typing import Any

import pytest
import torch

from contract.caption_subjects import CAPTIONERS, pictures
from contract.subject import Subject
from contract.translator_subjects import tokens
from regard import families
from regard.attention import attentions, record_own
from regard.decoding.protocol import take_rows

TOLERANCE = dict(atol=1e-5, rtol=1e-5)
every_captioner = pytest.mark.parametrize("subject", CAPTIONERS, ids=lambda subject: subject.name)


def build(subject: Subject) -> Any:
    torch.manual_seed(0)
    return families.build_model(subject.family, subject.config).eval()


@every_captioner
def test_steps_say_what_the_full_pass_says(subject: Subject) -> None:
    model, images, target = build(subject), pictures(3), tokens(3, 5, 7)
    whole = model(images, target)
    state = model.start(model.encoder(images))
    for place in range(5):
        logits, state = model.step(target[:, place], state)
        torch.testing.assert_close(logits, whole[:, place], **TOLERANCE)


@every_captioner
def test_a_search_may_drop_copy_and_reorder_rows_of_the_state(subject: Subject) -> None:
    model, images, target = build(subject), pictures(3), tokens(3, 3, 7)
    state = model.start(model.encoder(images))
    for place in range(2):
        _, state = model.step(target[:, place], state)
    chosen = torch.tensor([2, 0, 0])
    logits, _ = model.step(target[chosen, 2], take_rows(state, chosen))
    torch.testing.assert_close(logits, model(images, target)[chosen, 2], **TOLERANCE)


@every_captioner
def test_what_is_said_depends_on_the_picture(subject: Subject) -> None:
    model, target = build(subject), tokens(2, 4, 7)
    said = model(pictures(2), target)
    assert not torch.allclose(said, model(pictures(2, seed=9), target), atol=1e-6)


@every_captioner
def test_every_attention_has_a_kind_and_a_layer_and_its_weights_cover_the_grid(subject: Subject) -> None:
    model = build(subject)
    with record_own(model) as tape:
        model(pictures(2), tokens(2, 4, 7))
    crossing = [name for name in tape if model.attention_kind(name) == "cross"]
    assert bool(crossing) == (subject.family != "show-tell")
    for name in crossing:
        assert tape[name].shape[-2:] == (4, 4)  # words, and regions of a grid of 2 x 2
        torch.testing.assert_close(tape[name].sum(-1), torch.ones(tape[name].shape[:-1]))
    layers = [model.attention_layer(name) for name in crossing]
    assert layers == list(range(1, len(crossing) + 1))
    assert len(attentions(model)) == len(tape)
