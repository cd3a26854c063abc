"""The stages of an attention against the lectures' equations, spelled out with loops, and against the model itself."""

import importlib
import json
import math
from typing import Any

import numpy as np
import pytest
import torch
from inspected import a_bahdanau, a_bert, a_gpt2, a_luong, a_machine, a_transformer, a_translator, a_vit, tokens
from torch import Tensor, nn

from contract.subject import Padding, Subject
from regard import families, inspect
from regard.attention import Alignment, Attention, Memory, MultiHeadAttention, Score, record_own
from regard.attention.alignments import Aligned
from regard.errors import UsageError
from regard.inspect import Steps

TOLERANCE = dict(atol=1e-5, rtol=1e-4)
FAMILIES = ("translator", "marian", "gpt2", "bert", "vit", "ntm", "han", "lstmn", "snail", "caption")
SUBJECTS: list[Subject] = [
    subject for name in FAMILIES for subject in importlib.import_module(f"contract.{name}_subjects").SUBJECTS
]


def softmax(scores: list[float]) -> list[float]:
    total = sum(math.exp(score) for score in scores)
    return [math.exp(score) / total for score in scores]


def plain(vector: Any) -> list[float]:
    return vector.tolist() if isinstance(vector, Tensor) else vector


def dot(left: Any, right: Any) -> float:
    return sum(a * b for a, b in zip(plain(left), plain(right), strict=True))


def times(matrix: Any, vector: Any) -> list[float]:
    return [dot(row, vector) for row in matrix]


@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: subject.name)
def test_every_attention_of_every_family_has_stages_that_come_to_what_it_read(subject: Subject) -> None:
    torch.manual_seed(0)
    model = families.build_model(subject.family, subject.config).eval()
    examples = subject.examples(0)
    unwatched = subject.outputs(model, examples, Padding("left", 1))
    with inspect.watch(model) as seen, record_own(model) as tape, torch.no_grad():
        watched = subject.outputs(model, examples, Padding("left", 1))
    assert all(map(torch.equal, watched, unwatched))
    assert set(seen.names) == set(tape)
    for name, weights in tape.items():
        machine = subject.family == "ntm"
        heads = seen.calls[name][0].queries if machine else 1
        for row in (0, -1):
            for query in (0, -1):
                story = seen.steps(name, query, 0, row)
                assert story.difference <= 1e-6
                own = weights[row, 0, query if not machine else query % len(seen.calls[name]) * heads].numpy()
                np.testing.assert_allclose(story["weights"], own[: len(story["weights"])], **TOLERANCE)
                assert not own[len(story["weights"]) :].any()  # keys this query did not know yet
                assert all(len(stage.axes) == stage.numbers.ndim for stage in story.stages)
                json.dumps(story.as_dict(), allow_nan=False)


def head_by_hand(
    module: MultiHeadAttention, head: int, x: Tensor, others: Tensor, allowed: list[bool]
) -> dict[str, Any]:
    """One head from the states themselves, a number at a time."""
    size = module.size // module.heads
    weight, bias = module.query_key_value.weight.detach().double(), module.query_key_value.bias.detach().double()

    def projected(state: Tensor, which: int) -> list[float]:
        rows = range(which * module.size + head * size, which * module.size + (head + 1) * size)
        return [dot(weight[row], state.double()) + float(bias[row]) for row in rows]

    query = projected(x, 0)
    keys, values = ([projected(state, which) for state in others] for which in (1, 2))
    scores = [dot(query, key) / math.sqrt(size) for key in keys]
    shares = iter(softmax([score for score, may in zip(scores, allowed, strict=True) if may]))
    weights = [next(shares) if may else 0.0 for may in allowed]
    context = [sum(weights[j] * values[j][i] for j in range(len(values))) for i in range(size)]
    output = module.output.weight.detach().double()
    share = [sum(float(output[row, head * size + i]) * context[i] for i in range(size)) for row in range(module.size)]
    return dict(query=query, keys=keys, values=values, scores=scores, weights=weights, context=context, share=share)


def assert_told(story: Steps, by_hand: dict[str, Any]) -> None:
    for name, numbers in by_hand.items():
        np.testing.assert_allclose(story[name], numbers, **TOLERANCE, err_msg=name)


def inputs_of(module: nn.Module, run: Any) -> list[Any]:
    seen: list[Any] = []
    handle = module.register_forward_pre_hook(lambda module, given: seen.append(given[0]))
    with torch.no_grad():
        run()
    handle.remove()
    return seen


@pytest.mark.parametrize("head", [0, 1])
def test_a_head_of_gpt2_looks_back_as_the_equations_say(head: int) -> None:
    model, read = a_gpt2(), tokens(1, 5)
    module = model.layers[1].self_attention
    (states,) = inputs_of(module, lambda: model(read))
    for query in range(5):
        story = inspect.steps(model, lambda: model(read), "layers.1.self_attention", query=query, head=head)
        expected = head_by_hand(module, head, states[0, query], states[0], [key <= query for key in range(5)])
        assert_told(story, {**expected, "input": states[0, query]})
        assert (story.kind, story.query, story.head) == ("multi-head", query, head)


def test_a_head_of_bert_does_not_see_padding() -> None:
    model, read = a_bert(), tokens(2, 4)
    read[1, 2:] = 0
    module = model.encoder.layers[0].self_attention
    (states,) = inputs_of(module, lambda: model(read))
    story = inspect.steps(model, lambda: model(read), "encoder.layers.0.self_attention", query=1, head=1, row=1)
    assert_told(story, head_by_hand(module, 1, states[1, 1], states[1], [True, True, False, False]))
    assert story["mask"].tolist() == [True, True, False, False]
    written = {stage["name"]: stage["numbers"] for stage in story.as_dict()["stages"]}
    assert written["minus_max"][2:] == [None, None]  # minus infinity is no JSON


def test_a_head_of_a_vit_looks_everywhere() -> None:
    model, picture = a_vit(), torch.randn(1, 1, 6, 6)
    module = model.layers[0].self_attention
    (states,) = inputs_of(module, lambda: model(picture))
    story = inspect.steps(model, lambda: model(picture), "layers.0.self_attention", query=0, head=1)
    assert_told(story, head_by_hand(module, 1, states[0, 0], states[0], [True] * 10))


def test_cross_attention_asks_with_the_target_and_reads_the_source() -> None:
    model, source, target = a_transformer(), tokens(1, 4), tokens(1, 3, seed=1)
    module = model.decoder.layers[1].cross_attention
    (states,) = inputs_of(module, lambda: model(source, target))
    with torch.no_grad():
        memory, _ = model.encode(source)
    name = "decoder.layers.1.cross_attention"
    story = inspect.steps(model, lambda: model(source, target), name, query=2, head=1)
    assert_told(story, head_by_hand(module, 1, states[0, 2], memory[0], [True] * 4))


def test_the_shares_of_all_heads_and_the_bias_are_the_output() -> None:
    module = drawn_attention()
    states = torch.randn(1, 4, 8)
    with inspect.watch(module) as seen, torch.no_grad():
        output = module(states, causal=True).context[0, 2]
    shares = [seen.steps("", 2, head)["share"] for head in range(4)]
    np.testing.assert_allclose(np.sum(shares, 0) + module.output.bias.detach().numpy(), output, **TOLERANCE)


def drawn_attention(**sizes: int) -> MultiHeadAttention:
    torch.manual_seed(0)
    return MultiHeadAttention(8, 4, **sizes)


def test_projections_of_their_own_and_masks_with_a_query_axis_are_understood() -> None:
    module = drawn_attention(key_size=6, value_size=5)
    memory = module.remember(
        torch.randn(2, 5, 6), torch.tensor([[True] * 5, [True] * 3 + [False] * 2]), torch.randn(2, 5, 5)
    )
    narrow = torch.rand(2, 3, 5, generator=torch.Generator().manual_seed(1)) < 0.6
    with inspect.watch(module) as seen, record_own(module) as tape, torch.no_grad():
        module(torch.randn(2, 3, 8), memory, mask=narrow)
    for row in range(2):
        for query in range(3):
            for head in range(4):
                story = seen.steps("", query, head, row)
                assert story.difference < 1e-6
                np.testing.assert_allclose(story["weights"], tape[""][row, head, query], **TOLERANCE)


def test_a_query_that_may_look_at_nothing_reads_zeros_in_every_stage_from_there() -> None:
    module = drawn_attention()
    with inspect.watch(module) as seen, torch.no_grad():
        module(torch.randn(1, 3, 8), mask=torch.zeros(1, 3, dtype=torch.bool))
    story = seen.steps("", 0, 0)
    assert not story["weights"].any()
    assert not story["context"].any()
    assert story["sum"] == 0
    assert story.difference == 0


def test_cached_steps_are_queries_one_after_the_other() -> None:
    model, read = a_gpt2(), tokens(1, 4)
    with inspect.watch(model) as seen, torch.no_grad():
        carried = None
        for token in read.unbind(1):
            _, carried = model.read(token[:, None], carried)
    whole = inspect.steps(model, lambda: model(read), "layers.1.self_attention", query=2, head=1)
    stepped = seen.steps("layers.1.self_attention", 2, 1)
    np.testing.assert_allclose(stepped["weights"], whole["weights"][:3], **TOLERANCE)
    np.testing.assert_allclose(stepped["context"], whole["context"], **TOLERANCE)


def test_the_beams_of_a_search_can_be_watched_while_they_are_searched() -> None:
    loaded = a_translator()
    with inspect.watch(loaded.model, "decoder.*") as seen:
        loaded.translate(["the cat sat", "a dog"], num_beams=3)
    for name in seen.names:
        count = sum(call.queries for call in seen.calls[name])
        assert count > 6
        assert max(seen.steps(name, query, head=1).difference for query in range(count)) < 1e-6


def test_bahdanaus_score_is_v_tanh_of_w_s_plus_u_h() -> None:
    model, source, target = a_bahdanau(), tokens(1, 4), tokens(1, 3, seed=1)
    score: Any = model.attention.score
    queries = inputs_of(model.attention, lambda: model(source, target))
    with torch.no_grad():
        states, _ = model.encoder(model.words(source), source != 0)
    story = inspect.steps(model, lambda: model(source, target), "attention", query=1)
    state = queries[1][0, 0]
    energies = []
    for j in range(4):
        added = [
            a + b for a, b in zip(times(score.query.weight, state), times(score.key.weight, states[0, j]), strict=True)
        ]
        energies.append(dot(score.energy.weight[0], [math.tanh(unit) for unit in added]))
        np.testing.assert_allclose(story["added"][j], added, **TOLERANCE)
    weights = softmax(energies)
    context = [sum(weights[j] * float(states[0, j, i]) for j in range(4)) for i in range(states.shape[-1])]
    assert_told(story, {"state": state, "scores": energies, "weights": weights})
    np.testing.assert_allclose(story["context"][: len(context)], context, **TOLERANCE)  # then its share of the gates
    assert story.kind == "additive soft"


SCORES: dict[str, Any] = {
    "dot": lambda q, h, j, score: dot(q, h[j]),
    "scaled_dot": lambda q, h, j, score: dot(q, h[j]) / math.sqrt(8),
    "general": lambda q, h, j, score: dot(q, times(score.weight.weight, h[j])),
    "cosine": lambda q, h, j, score: (
        float(score.sharpness) * dot(q, h[j]) / math.sqrt(dot(q, q)) / math.sqrt(dot(h[j], h[j]))
    ),
    "location": lambda q, h, j, score: dot(score.place.weight[j], q),
}


@pytest.mark.parametrize("name", SCORES)
def test_luongs_scores_are_those_of_the_paper(name: str) -> None:
    model, source, target = a_luong(score=name, feeding=False), tokens(1, 5), tokens(1, 3, seed=1)
    (queries,) = inputs_of(model.attention, lambda: model(source, target))
    with torch.no_grad():
        states, _ = model.encoder(model.words(source), source != 0)
    story = inspect.steps(model, lambda: model(source, target), "attention", query=2)
    with torch.no_grad():
        scores = [SCORES[name](queries[0, 2], states[0], j, model.attention.score) for j in range(5)]
    assert_told(story, {"query": queries[0, 2], "scores": scores, "weights": softmax(scores)})


@pytest.mark.parametrize("feeding", [False, True])
def test_a_monotonic_window_stands_at_the_querys_place(feeding: bool) -> None:
    model = a_luong(score="dot", align="local_m", reach=1, feeding=feeding)
    source, target = tokens(1, 5), tokens(1, 7, seed=1)
    for query, near in ((0, [0, 1]), (2, [1, 2, 3]), (6, [3, 4])):
        story = inspect.steps(model, lambda: model(source, target), "attention", query=query)
        assert story["centre"] == min(query, 4)
        assert np.flatnonzero(story["window"]).tolist() == near
        expected = softmax([story["scores"][j] for j in near])
        np.testing.assert_allclose(story["weights"][near], expected, **TOLERANCE)
        assert np.flatnonzero(story["weights"]).tolist() == near


def test_a_predicted_window_has_its_centre_and_its_gaussian() -> None:
    model = a_luong(score="general", align="local_p", reach=2, feeding=False)
    source, target = tokens(2, 6), tokens(2, 3, seed=1)
    source[0, 4:] = 0
    (queries,) = inputs_of(model.attention, lambda: model(source, target))
    align: Any = model.attention.align
    story = inspect.steps(model, lambda: model(source, target), "attention", query=1, row=0)
    with torch.no_grad():
        hidden = [math.tanh(value) for value in times(align.hidden.weight, queries[0, 1])]
        centre = 4 / (1 + math.exp(-dot(align.place.weight[0], hidden)))
    near = [j for j in range(4) if abs(j - centre) <= 2]
    soft = dict(zip(near, softmax([float(story["scores"][j]) for j in near]), strict=True))
    weights = [soft.get(j, 0.0) * math.exp(-((j - centre) ** 2) / 2) for j in range(4)]
    assert float(story["centre"]) == pytest.approx(centre, rel=1e-5)
    np.testing.assert_allclose(story["weights"][:4], weights, **TOLERANCE)
    assert not story["weights"][4:].any()


def test_a_hard_choice_is_the_best_key_or_the_draw_that_was_made() -> None:
    model = a_luong(score="general", align="hard", feeding=False)
    source, target = tokens(1, 5), tokens(1, 4, seed=1)
    story = inspect.steps(model, lambda: model(source, target), "attention", query=1)
    assert story["weights"].tolist() == [float(j == story["probabilities"].argmax()) for j in range(5)]
    with inspect.watch(model.train()) as seen, record_own(model) as tape, torch.no_grad():
        model(source, target)
    for query in range(4):
        assert seen.steps("attention", query)["weights"].tolist() == tape["attention"][0, 0, query].tolist()


@pytest.mark.parametrize("controller", ["feedforward", "lstm"])
def test_the_heads_of_a_machine_go_through_equations_5_to_9_and_write_by_3_and_4(controller: str) -> None:
    model = a_machine(controller=controller, read_heads=2, write_heads=2)
    episode = torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(0))
    asked = inputs_of(model.addressing, lambda: model(episode))
    with inspect.watch(model) as seen, torch.no_grad():
        trace = model.trace(episode)
    step, row, cells = 2, 1, trace.memory[1, 1].double()
    for head in range(4):
        k, beta, g, s, gamma, before = asked[step][row, head].double().split([4, 1, 1, 5, 1, 7])
        cosines = [dot(k, cell) / math.sqrt(dot(k, k) * dot(cell, cell)) for cell in cells]
        content = softmax([math.log1p(math.exp(beta)) * cosine for cosine in cosines])
        gate = 1 / (1 + math.exp(-g))
        gated = [gate * w + (1 - gate) * float(old) for w, old in zip(content, before, strict=True)]
        moves = softmax(s.tolist())
        shifted = [sum(gated[(i - move) % 7] * moves[move + 2] for move in range(-2, 3)) for i in range(7)]
        power = 1 + math.log1p(math.exp(gamma))
        total = sum(weight**power for weight in shifted)
        weights = [weight**power / total for weight in shifted]
        context = [sum(weights[i] * float(cells[i, j]) for i in range(7)) for j in range(4)]
        story = seen.steps("addressing", step, head, row)
        known = dict(key=k, cosine=cosines, content=content, gated=gated, shifts=moves, shifted=shifted)
        assert_told(story, {**known, "weights": weights, "context": context})
        assert float(story["gate"]) == pytest.approx(gate)
        own = trace.read_weights[row, step, head] if head < 2 else trace.write_weights[row, step, head - 2]
        np.testing.assert_allclose(story["weights"], own.detach(), **TOLERANCE)
    assert "written" not in {stage.name for stage in seen.steps("addressing", step, 1, row).stages}
    for head in (2, 3):
        story = seen.steps("addressing", step, head, row)
        np.testing.assert_allclose(story["add"], trace.adds[row, step, head - 2].detach(), **TOLERANCE)
        np.testing.assert_allclose(story["written"], trace.memory[row, step].detach(), **TOLERANCE)
    erases = [seen.steps("addressing", step, head, row)["erase"] for head in (2, 3)]
    first, second = (seen.steps("addressing", step, head, row) for head in (2, 3))
    cell = cells[3].numpy() * (1 - first["weights"][3] * erases[0]) * (1 - second["weights"][3] * erases[1])
    cell = cell + first["weights"][3] * first["add"] + second["weights"][3] * second["add"]
    np.testing.assert_allclose(first["written"][3], cell, **TOLERANCE)


class Nearest(Score):
    def forward(self, query: Tensor, memory: Memory) -> Tensor:
        return -torch.cdist(query, memory.keys)


class Halved(Alignment):
    def forward(self, scores: Tensor, allowed: Any, queries: Any, memory: Memory) -> Aligned:
        return Aligned(scores.softmax(-1) / 2)


def test_a_score_and_an_alignment_of_ones_own_are_told_as_they_are() -> None:
    attention = Attention(Nearest(4, 4), Halved())
    with inspect.watch(attention) as seen:
        attended = attention(torch.randn(2, 3, 4), attention.remember(torch.randn(2, 5, 4)))
    story = seen.steps("", 1, row=1)
    assert [stage.name for stage in story.stages][:2] == ["scores", "weights"]
    assert story.kind == "nearest halved"
    np.testing.assert_allclose(story["weights"], attended.weights[1, 1], **TOLERANCE)
    assert story.difference < 1e-6


def test_what_does_not_exist_is_refused_in_one_line() -> None:
    model, read = a_gpt2(), tokens(1, 3)
    with inspect.watch(model, layers=-1) as seen, torch.no_grad():
        model(read)
    assert seen.names == ("layers.1.self_attention",)
    for choice, said in (
        (("layers.0.self_attention",), "no attention called 'layers.0.self_attention' was seen"),
        (("layers.1.self_attention", 3), "there is no query 3 in layers.1.self_attention: it has 3, counted from 0"),
        (("layers.1.self_attention", 0, 2), "there is no head 2"),
        (("layers.1.self_attention", 0, 0, 1), "there is no row 1"),
    ):
        with pytest.raises(UsageError, match=said):
            seen.steps(*choice)
    with pytest.raises(UsageError, match="there is no stage 'energy': choose one of input, query"):
        seen.steps("layers.1.self_attention")["energy"]
