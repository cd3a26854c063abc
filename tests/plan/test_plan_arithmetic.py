"""The written FLOPs against torch's own counter, there and back."""

import pytest

from regard.plan.derived import DERIVED, Work
from regard.plan.inputs import row_tokens
from regard.plan.planning import arithmetic_of, make_bill
from regard.plan.recurrent import written_out
from regard.plan.subjects import Subject, subject
from regard.plan.traced import counted

CLOSE = 0.03
BLOCK = ("model.size=16", "model.hidden_size=24", "model.heads=2")
WORDS = "model.vocabulary=50"
PLANNED = {
    "transformer": subject("transformer:tiny", (*BLOCK, WORDS)),
    "transformer, pre-norm, an output bias": subject("transformer:opus", (*BLOCK, WORDS, "model.pre_norm=true")),
    "gpt2": subject("gpt2:tiny", (*BLOCK, WORDS)),
    "bert": subject("bert:tiny", (*BLOCK, WORDS)),
    "bert-classifier": subject("bert-classifier:tiny", (*BLOCK, WORDS)),
    "bert-tagger": subject("bert-tagger:tiny", (*BLOCK, WORDS)),
    "bert-embedder": subject("bert-embedder:tiny", (*BLOCK, WORDS)),
    "vit": subject("vit:grey28", BLOCK),
    "rnn": subject("rnn:small", ("model.size=12", WORDS)),
    "rnn, four layers of LSTMs": subject("rnn:sutskever", ("model.size=12", "model.embedding_size=10", WORDS)),
    "bahdanau": subject("bahdanau:small", ("model.size=12", "model.alignment_size=10", WORDS)),
    "luong": subject("luong:small", ("model.size=12", "model.embedding_size=12", WORDS)),
    "luong, feeding": subject("luong:paper", ("model.size=12", "model.embedding_size=12", "model.layers=2", WORDS)),
    "lstm": subject("lstm:small", ("model.size=12",)),
}
LONG = 40  # steps of recurrent ones: the first needs no gradient of the state before it, which is not counted


@pytest.mark.parametrize("planned", PLANNED.values(), ids=PLANNED)
def test_the_written_flops_are_those_of_torchs_counter(planned: Subject) -> None:
    work = Work(2, LONG if planned.family not in DERIVED else 7, 5)
    ours, theirs = arithmetic_of(planned, work), counted(planned.family, planned.config, work, 2)
    assert ours.forward == pytest.approx(theirs.forward, rel=CLOSE)
    assert ours.training == pytest.approx(theirs.training, rel=CLOSE)


def test_a_family_that_is_not_written_out_is_counted_with_its_whole_vocabulary() -> None:
    planned = subject("lstmn:tiny", ("model.size=8", "model.embedding_size=8", "model.vocabulary=300"))
    work = Work(3, 4, 0)
    ours, theirs = make_bill(planned, work), counted("lstmn", planned.config, work, 3)
    assert ours.how == "traced"
    assert ours.cost.training == pytest.approx(theirs.training, rel=CLOSE)


def test_only_predicted_words_pay_for_the_vocabulary() -> None:
    planned = PLANNED["bert"]
    all_of_them, half = (make_bill(planned, Work(2, 8, 0, share)) for share in (1.0, 0.5))
    per_word = 2 * 16 * 16 + 2 * 16 * 50  # the head's matrix, and every word
    assert all_of_them.cost.forward - half.cost.forward == 8 * per_word


def test_attention_is_the_only_cost_that_grows_with_the_length_of_rows() -> None:
    planned = PLANNED["gpt2"]
    short, long = (make_bill(planned, Work(rows, 64 // rows, 0)).cost for rows in (8, 2))
    assert long.forward - short.forward == 4 * 64 * (32 - 8) * 16 * 4  # tokens, keys more of each, size, layers


def test_luong_with_a_window_is_not_taken_for_what_is_written_out() -> None:
    assert written_out("luong", PLANNED["luong"].config)
    assert not written_out("luong", subject("luong:small", ("model.align=local_p",)).config)


def test_tokens_of_a_row_are_what_the_family_reads() -> None:
    assert row_tokens("vit", subject("vit:b16").config, Work(1, 0, 0)) == 197
    assert row_tokens("gpt2", PLANNED["gpt2"].config, Work(1, 9, 0)) == 9
