"""Looking never changes what is seen, shows exactly what was asked for, and costs only what is looked at."""

import subprocess
import sys
import textwrap

import pytest
import torch
from torch import Tensor, nn

from regard.attention import (
    ALIGNMENTS,
    SCORES,
    Attention,
    MultiHeadAttention,
    Tape,
    attentions,
    masks,
    named_attention,
    record,
    record_own,
)
from regard.errors import UsageError

SIZE, HEADS = 8, 4


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.self_attention = MultiHeadAttention(SIZE, HEADS)
        self.cross_attention = MultiHeadAttention(SIZE, HEADS)

    def forward(self, states: Tensor, memory: Tensor, mask: Tensor | None) -> Tensor:
        states = states + self.self_attention(states, causal=True).context
        return states + self.cross_attention(states, self.cross_attention.remember(memory, mask)).context


class Encoder(nn.Module):
    def __init__(self, count: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList([MultiHeadAttention(SIZE, HEADS) for _ in range(count)])

    def forward(self, states: Tensor, mask: Tensor | None) -> Tensor:
        for layer in self.layers:
            states = states + layer(states, mask=mask).context
        return states


class Decoder(nn.Module):
    def __init__(self, count: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Layer() for _ in range(count)])

    def forward(self, states: Tensor, memory: Tensor, mask: Tensor | None) -> Tensor:
        for layer in self.layers:
            states = layer(states, memory, mask)
        return states


class Translator(nn.Module):
    """Two stacks of different heights, so that "the last layer" is another number in each."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.decoder = Encoder(3), Decoder(2)

    def forward(self, source: Tensor, target: Tensor, mask: Tensor | None = None) -> Tensor:
        return self.decoder(target, self.encoder(source, mask), mask)


NAMES = [
    "encoder.layers.0",
    "encoder.layers.1",
    "encoder.layers.2",
    "decoder.layers.0.self_attention",
    "decoder.layers.0.cross_attention",
    "decoder.layers.1.self_attention",
    "decoder.layers.1.cross_attention",
]


@pytest.fixture
def model() -> Translator:
    torch.manual_seed(0)
    return Translator()


@pytest.fixture
def inputs() -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(1)
    return torch.randn(2, 7, SIZE), torch.randn(2, 5, SIZE), masks.padding(torch.tensor([7, 4]))


def hook_count(model: nn.Module) -> int:
    return sum(len(module._forward_hooks) for module in model.modules())


def test_the_attentions_of_a_model_are_listed_in_order_with_their_names(model: Translator) -> None:
    assert [name for name, _ in attentions(model)] == NAMES


@pytest.mark.parametrize("masked", [False, True])
def test_outputs_and_gradients_are_bitwise_the_same_while_somebody_looks(
    model: Translator, inputs: tuple[Tensor, Tensor, Tensor], masked: bool
) -> None:
    source, target, mask = inputs
    mask = mask if masked else None
    unseen = model(source, target, mask)
    unseen.square().sum().backward()
    unseen_gradients = [parameter.grad.clone() for parameter in model.parameters()]
    model.zero_grad()
    with record(model) as tape:
        seen = model(source, target, mask)
    seen.square().sum().backward()
    assert torch.equal(seen, unseen)
    for parameter, gradient in zip(model.parameters(), unseen_gradients, strict=True):
        assert torch.equal(parameter.grad, gradient)
    assert list(tape) == NAMES


@pytest.mark.parametrize("align", ALIGNMENTS)
@pytest.mark.parametrize("score", SCORES)
def test_attention_with_any_score_and_alignment_is_bitwise_the_same_while_somebody_looks(
    score: str, align: str
) -> None:
    torch.manual_seed(0)
    attention = named_attention(score, align, SIZE, SIZE)  # training mode: hard draws
    query, memory = torch.randn(2, 3, SIZE), attention.remember(torch.randn(2, 5, SIZE))
    torch.manual_seed(1)
    unseen = attention(query, memory)
    torch.manual_seed(1)
    with record(attention) as tape:
        seen = attention(query, memory)
    assert torch.equal(seen.context, unseen.context)
    (weights,) = tape.values()
    assert weights.shape == (2, 1, 3, 5)
    torch.testing.assert_close(weights[:, 0], unseen.weights, atol=1e-6, rtol=0)


def test_recorded_weights_are_those_of_the_naive_equation(
    model: Translator, inputs: tuple[Tensor, Tensor, Tensor]
) -> None:
    source, target, mask = inputs
    seen: dict[str, tuple[Tensor, Tensor]] = {}

    def keep(name: str):
        def hook(module: MultiHeadAttention, args: tuple, output) -> None:
            seen[name] = (module._query(args[0]), output.memory.keys)

        return hook

    handles = [module.register_forward_hook(keep(name)) for name, module in attentions(model)]
    with record(model) as tape:
        model(source, target, mask)
    for handle in handles:
        handle.remove()
    for name, weights in tape.items():
        query, keys = seen[name]
        scores = query.double() @ keys.double().mT / (SIZE // HEADS) ** 0.5
        hidden = ~masks.causal(5, 5) if "self" in name else ~mask[:, None, None]
        naive = scores.masked_fill(hidden, -torch.inf).softmax(-1)
        assert not weights.requires_grad
        torch.testing.assert_close(weights.double(), naive, atol=1e-6, rtol=0)


@pytest.mark.parametrize(
    ("layers", "names"),
    [
        (None, NAMES),
        (0, [NAMES[0], *NAMES[3:5]]),
        (2, [NAMES[2]]),
        (-1, [NAMES[2], *NAMES[5:]]),
        (-3, [NAMES[0]]),
        ([0, -1], [NAMES[0], NAMES[2], *NAMES[3:]]),
        ("encoder.*", NAMES[:3]),
        ("*cross_attention", [NAMES[4], NAMES[6]]),
        ("decoder.*self_attention", [NAMES[3], NAMES[5]]),
        ("encoder.layers.1", [NAMES[1]]),
        (["encoder.layers.1", -3], NAMES[:2]),
        ((1, 1, "encoder.layers.1"), [NAMES[1], *NAMES[5:]]),
        (range(2), [*NAMES[:2], *NAMES[3:]]),
    ],
)
def test_only_the_chosen_layers_are_recorded(
    model: Translator, inputs: tuple[Tensor, Tensor, Tensor], layers: object, names: list[str]
) -> None:
    with record(model, layers=layers) as tape:
        model(*inputs)
    assert list(tape) == names
    assert len(tape) == len(names)


@pytest.mark.parametrize(
    ("choice", "kept"),
    [
        (None, [0, 1, 2, 3]),
        (0, [0]),
        (-1, [3]),
        ([2, 0], [2, 0]),
        ((-1, -4), [3, 0]),
        (range(1, 3), [1, 2]),
        (slice(1, 3), [1, 2]),
        (slice(-2, None), [2, 3]),
        (slice(None, None, 2), [0, 2]),
        (slice(2, 99), [2, 3]),
    ],
)
def test_only_the_chosen_heads_and_queries_are_recorded(
    model: Translator, inputs: tuple[Tensor, Tensor, Tensor], choice: object, kept: list[int]
) -> None:
    source, target, mask = inputs
    source, mask = source[:, :4], mask[:, :4]  # as many queries as heads: one table serves both
    target = target[:, :4]
    with record(model) as everything:
        model(source, target, mask)
    with record(model, heads=choice) as some_heads:
        model(source, target, mask)
    with record(model, queries=choice) as some_queries:
        model(source, target, mask)
    for name in NAMES:
        torch.testing.assert_close(some_heads[name], everything[name][:, kept], atol=1e-6, rtol=0)
        torch.testing.assert_close(some_queries[name], everything[name][:, :, kept], atol=1e-6, rtol=0)


def test_heads_and_queries_given_as_a_generator_serve_every_layer(
    model: Translator, inputs: tuple[Tensor, Tensor, Tensor]
) -> None:
    with record(model, heads=(head for head in [0, 2]), queries=iter([1])) as tape:
        model(*inputs)
    assert {name: tuple(weights.shape[1:3]) for name, weights in tape.items()} == dict.fromkeys(NAMES, (2, 1))


@pytest.mark.parametrize("score", ["dot", "scaled_dot", "general", "cosine", "additive", "location"])
def test_an_attention_without_heads_has_one(score: str) -> None:
    torch.manual_seed(0)
    attention = named_attention(score, "soft", SIZE, SIZE)
    query, memory = torch.randn(2, 3, SIZE), attention.remember(torch.randn(2, 5, SIZE))
    weights = attention(query, memory).weights.detach()
    for heads in (0, -1, [0], slice(None)):
        with record(attention, heads=heads, queries=[2, 0]) as tape:
            attention(query, memory)
        (found,) = tape.values()
        torch.testing.assert_close(found, weights[:, None, [2, 0]])
    with pytest.raises(UsageError, match="no head 1"), record(attention, heads=1):
        attention(query, memory)


@pytest.mark.parametrize("layers", [3, -4, "encoder.layers.7", "attention", [0, 9]])
def test_a_layer_that_does_not_exist_is_refused_with_those_that_do(model: Translator, layers: object) -> None:
    with pytest.raises(UsageError) as refusal, record(model, layers=layers):
        pytest.fail("the block must not begin")
    for name in NAMES:
        assert name in str(refusal.value)
    assert hook_count(model) == 0


def test_a_model_without_attentions_says_so() -> None:
    with pytest.raises(UsageError, match="attentions are: none"), record_own(nn.Linear(2, 2), layers=0):
        pytest.fail("the block must not begin")


@pytest.mark.parametrize(
    ("choice", "what"),
    [
        ({"heads": 4}, "head 4"),
        ({"heads": [0, -5]}, "head -5"),
        ({"queries": 7}, "query 7"),
        ({"queries": [-8]}, "query -8"),
    ],
)
def test_a_head_or_query_that_does_not_exist_is_refused_where_it_is_missing(
    model: Translator, inputs: tuple[Tensor, Tensor, Tensor], choice: dict, what: str
) -> None:
    with pytest.raises(UsageError) as refusal, record(model, **choice):
        model(*inputs)
    assert f"no {what}" in str(refusal.value)
    assert "encoder.layers.0" in str(refusal.value)
    assert hook_count(model) == 0


def test_nothing_is_recorded_before_and_after_the_block(
    model: Translator, inputs: tuple[Tensor, Tensor, Tensor]
) -> None:
    with record(model) as tape:
        assert hook_count(model) == len(NAMES)
        assert len(tape) == 0
    assert hook_count(model) == 0
    model(*inputs)
    assert len(tape) == 0


def test_hooks_are_gone_after_an_exception_too(model: Translator, inputs: tuple[Tensor, Tensor, Tensor]) -> None:
    with pytest.raises(RuntimeError), record(model) as tape:
        model(inputs[0], inputs[1][..., :3])  # the encoder runs, the decoder stumbles over the size
    assert hook_count(model) == 0
    assert list(tape) == NAMES[:3]  # what was seen before stays


def test_two_people_may_look_at_once(model: Translator, inputs: tuple[Tensor, Tensor, Tensor]) -> None:
    with record(model, layers=0) as first, record(model, layers=0, heads=1) as second:
        model(*inputs)
    assert list(first) == list(second)
    for name in first:
        torch.testing.assert_close(first[name][:, 1:2], second[name], atol=1e-6, rtol=0)


def test_a_decoder_that_steps_is_recorded_row_below_row() -> None:
    torch.manual_seed(0)
    decoder = nn.ModuleDict({"attention": MultiHeadAttention(SIZE, HEADS)})
    attention, states = decoder["attention"], torch.randn(2, 5, SIZE)
    full = attention(states, causal=True).weights.detach()
    past = None
    with record(decoder) as tape:
        for t in range(5):
            past = attention(states[:, t : t + 1], causal=True, past=past).memory
    torch.testing.assert_close(tape["attention"], full, atol=1e-5, rtol=0)
    assert not tape["attention"].triu(1).any()  # what a row could not know yet is zero


def test_different_batches_on_one_tape_are_refused_with_the_remedy() -> None:
    model = nn.ModuleDict({"attention": MultiHeadAttention(SIZE, HEADS)})
    with record(model) as tape:
        for batch in (2, 3):
            model["attention"](torch.randn(batch, 4, SIZE))
    with pytest.raises(UsageError, match=r"attention was recorded for batches.*one record\(...\) per batch"):
        tape["attention"]


def test_a_tape_is_a_mapping(model: Translator, inputs: tuple[Tensor, Tensor, Tensor]) -> None:
    with record(model, layers="encoder.*") as tape:
        model(*inputs)
    assert isinstance(tape, Tape)
    assert "encoder.layers.0" in tape
    assert "decoder.layers.0.self_attention" not in tape
    assert {name: tuple(weights.shape) for name, weights in tape.items()} == dict.fromkeys(NAMES[:3], (2, HEADS, 7, 7))
    with pytest.raises(KeyError):
        tape["encoder.layers.9"]


def test_an_attention_without_a_batch_axis_is_recorded_as_a_batch_of_one() -> None:
    torch.manual_seed(0)
    for score in ("dot", "additive"):
        attention = named_attention(score, "soft", SIZE, SIZE)
        with record(attention) as tape:
            weights = attention(torch.randn(3, SIZE), attention.remember(torch.randn(5, SIZE))).weights
        (found,) = tape.values()
        torch.testing.assert_close(found, weights.detach()[None, None])


def test_a_model_that_is_one_attention_is_named_in_its_errors() -> None:
    attention = MultiHeadAttention(SIZE, HEADS)
    with pytest.raises(UsageError, match=r"no head 9 in this attention: it has 4"), record(attention, heads=9):
        attention(torch.randn(1, 2, SIZE))


def test_both_kinds_of_attention_are_found() -> None:
    model = nn.ModuleDict({"a": MultiHeadAttention(4, 2), "b": named_attention("dot", "soft", 4, 4)})
    assert [type(module) for _, module in attentions(model)] == [MultiHeadAttention, Attention]


LOOK_AT_A_LONG_INPUT = """
    import contextlib, resource, sys
    import torch
    from regard.attention import MultiHeadAttention, record

    torch.set_num_threads(1)
    torch.manual_seed(0)
    attention = MultiHeadAttention(16, 2)
    model = torch.nn.ModuleList([attention])
    looking = {
        "nobody": contextlib.nullcontext,
        "last row": lambda: record(model, heads=1, queries=-1),
        "half of the rows": lambda: record(model, heads=1, queries=slice(4096)),
    }[sys.argv[1]]
    with torch.no_grad(), looking():
        attention(torch.randn(1, 8192, 16), causal=True)

    def peak():
        # On Linux ru_maxrss begins at the size of the process that started this one; VmHWM begins afresh.
        with contextlib.suppress(OSError), open("/proc/self/status") as status:
            for line in status:
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) * 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)

    print(peak())
"""


@pytest.mark.skipif(sys.platform == "win32", reason="peak memory is measured with getrusage, which Windows lacks")
def test_recording_the_last_row_of_8192_tokens_costs_one_row() -> None:
    script = textwrap.dedent(LOOK_AT_A_LONG_INPUT)
    who = ("nobody", "last row", "half of the rows")
    runs = [
        subprocess.Popen(
            [sys.executable, "-c", script, name], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for name in who
    ]
    peaks = {}
    for name, run in zip(who, runs, strict=True):
        output, errors = run.communicate(timeout=120)
        assert run.returncode == 0, errors
        peaks[name] = int(output)
    megabyte = 1 << 20
    assert peaks["last row"] - peaks["nobody"] < 50 * megabyte, peaks
    # The measurement must be able to fail: 4096 rows of 8192 weights are 128 MB.
    assert peaks["half of the rows"] - peaks["nobody"] > 100 * megabyte, peaks
