"""Anyone's model: exact weights while the fused kernel runs, and outputs that do not change by a bit."""

import inspect
import re
import threading
from types import ModuleType

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import regard
from regard.attention import MultiHeadAttention, record, record_own, watching
from regard.attention.watching import KernelCall, kernel_attentions
from regard.errors import UsageError
from regard.public import elsewhere
from tiny_transformers import MODELS, eager_weights, inputs, transformers, twins


@pytest.fixture(scope="module", params=list(MODELS))
def name(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def known(name: str) -> tuple[nn.Module, nn.Module]:
    return twins(name)


@pytest.fixture(scope="module")
def gpt2() -> nn.Module:
    return twins("gpt2")[0]


def assert_nothing_is_left(model: nn.Module) -> None:
    for module in model.modules():
        assert not module._forward_hooks
        assert not module._forward_pre_hooks
    assert torch._C._len_torch_function_stack() == 0


def test_weights_are_those_of_eager_and_outputs_bitwise_those_of_the_kernel(
    name: str, known: tuple[nn.Module, nn.Module]
) -> None:
    fused, eager = known
    given = inputs(name)
    with torch.inference_mode():
        before = fused(**given)
        with regard.record(fused) as tape:
            during = fused(**given)
        expected = eager_weights(eager, given)
    assert all(torch.equal(a, b) for a, b in zip(values(before), values(during), strict=True))
    assert len(tape) == len(expected) > 0
    for (where, weights), theirs in zip(tape.items(), expected, strict=True):
        assert weights.shape == theirs.shape, where
        # Before a window that holds only padding, a query of padding sees nothing: zeros here, a mean with eager.
        blind = weights.sum(-1) == 0
        assert not blind[0].any()
        assert not blind[1, :, :6].any()
        torch.testing.assert_close(weights[~blind], theirs[~blind], rtol=0, atol=1e-5)
        assert weights.std() > 0.01, "an attention that prefers nothing proves nothing"
    assert_nothing_is_left(fused)


def test_an_eager_model_is_read_from_what_it_returns(name: str, known: tuple[nn.Module, nn.Module]) -> None:
    _, eager = known
    given = inputs(name)
    with torch.inference_mode(), regard.record(eager, heads=[2, -1], queries=slice(1, 4)) as tape:
        eager(**given)
    for weights, theirs in zip(tape.values(), eager_weights(eager, given), strict=True):
        assert torch.equal(weights, theirs[:, [2, 3], 1:4])


def values(output: object) -> list[Tensor]:
    """The tensors of a model's output, caches aside."""
    return [value for value in output.values() if isinstance(value, Tensor)]  # type: ignore[attr-defined]


def test_a_window_hides_what_is_too_far_back() -> None:
    model, _ = twins("mistral")
    with torch.inference_mode(), regard.record(model) as tape:
        model(torch.arange(3, 12)[None])
    allowed = torch.ones(9, 9).tril().triu(-2).bool()
    for weights in tape.values():
        assert (weights[..., ~allowed] == 0).all()
        assert (weights[..., allowed] > 0).all()


def test_only_what_is_chosen_is_computed(gpt2: nn.Module, monkeypatch: pytest.MonkeyPatch) -> None:
    given = inputs("gpt2")
    with torch.inference_mode(), regard.record(gpt2) as whole:
        gpt2(**given)
    computed: list[tuple[int, ...]] = []
    softmax = watching.masked_softmax

    def counted(scores: Tensor, allowed: Tensor | None) -> Tensor:
        computed.append(tuple(scores.shape))
        return softmax(scores, allowed)

    monkeypatch.setattr(watching, "masked_softmax", counted)
    with torch.inference_mode(), regard.record(gpt2, layers=-1, heads=[3, 0], queries=-1) as part:
        gpt2(**given)
    assert list(part) == ["transformer.h.1.attn"]
    torch.testing.assert_close(part["transformer.h.1.attn"], whole["transformer.h.1.attn"][:, [3, 0], -1:])
    assert computed == [(2, 2, 1, 9)]


def test_rows_are_computed_in_chunks_with_the_same_result(gpt2: nn.Module, monkeypatch: pytest.MonkeyPatch) -> None:
    given = inputs("gpt2")
    with torch.inference_mode(), regard.record(gpt2) as whole:
        gpt2(**given)
    monkeypatch.setattr(watching, "CHUNK_ELEMENTS", 2 * 4 * 9 * 2)  # two rows at once
    with torch.inference_mode(), regard.record(gpt2) as chunks:
        gpt2(**given)
    for where in whole:
        torch.testing.assert_close(chunks[where], whole[where])


def test_a_generation_with_a_cache_is_recorded_row_below_row(gpt2: nn.Module) -> None:
    prompt = torch.arange(3, 8)[None]
    with torch.inference_mode():
        plain = gpt2.generate(prompt, max_new_tokens=4, do_sample=False)
        with regard.record(gpt2) as steps:
            tokens = gpt2.generate(prompt, max_new_tokens=4, do_sample=False)
        with regard.record(gpt2) as whole:
            gpt2(tokens[:, :-1])
    assert torch.equal(tokens, plain)
    for where in whole:
        torch.testing.assert_close(steps[where], whole[where], rtol=0, atol=1e-5)


def test_looking_leaves_training_and_its_chances_alone(gpt2: nn.Module) -> None:
    given = inputs("gpt2")

    def gradient() -> tuple[Tensor, Tensor]:
        gpt2.zero_grad()
        torch.manual_seed(3)
        gpt2(**given, labels=given["input_ids"]).loss.backward()
        return gpt2.transformer.wte.weight.grad.clone(), torch.rand(1)

    gpt2.train()
    try:
        plain, chance = gradient()
        with regard.record(gpt2) as tape:
            looked, same_chance = gradient()
    finally:
        gpt2.eval()
    assert torch.equal(plain, looked)
    assert torch.equal(chance, same_chance)
    weights = tape["transformer.h.0.attn"]
    assert not weights.requires_grad
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 4, 9))  # before dropout


def test_records_may_be_nested(gpt2: nn.Module) -> None:
    given = inputs("gpt2")
    with torch.inference_mode(), regard.record(gpt2, layers=0) as outer:
        with regard.record(gpt2, heads=1) as inner:
            gpt2(**given)
        gpt2(**given)
    assert list(outer) == ["transformer.h.0.attn"]
    assert outer["transformer.h.0.attn"].shape == (2, 4, 18, 9)  # of both passes
    assert inner["transformer.h.0.attn"].shape == (2, 1, 9, 9)
    torch.testing.assert_close(outer["transformer.h.0.attn"][:, 1:2, :9], inner["transformer.h.0.attn"])
    assert_nothing_is_left(gpt2)


@pytest.mark.parametrize("fault", [ValueError, KeyboardInterrupt])
def test_nothing_is_left_after_a_fault_in_the_middle(gpt2: nn.Module, fault: type[BaseException]) -> None:
    def fail(*_: object) -> None:
        raise fault("in the middle of an attention")

    handle = gpt2.transformer.h[1].attn.c_attn.register_forward_hook(fail)
    try:
        with pytest.raises(fault), torch.inference_mode(), regard.record(gpt2), regard.record(gpt2, layers=1):
            gpt2(**inputs("gpt2"))
    finally:
        handle.remove()
    assert_nothing_is_left(gpt2)


def test_threads_with_models_of_their_own_do_not_disturb_one_another(gpt2: nn.Module) -> None:
    other, _ = twins("llama")
    models, given = {"gpt2": gpt2, "llama": other}, {name: inputs(name) for name in ("gpt2", "llama")}
    tapes: dict[str, dict[str, Tensor]] = {}
    both = threading.Barrier(2)

    def run(name: str) -> None:
        with torch.inference_mode(), regard.record(models[name]) as tape:
            both.wait()
            models[name](**given[name])
        tapes[name] = dict(tape)

    threads = [threading.Thread(target=run, args=(name,)) for name in models]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for name, model in models.items():
        with torch.inference_mode(), regard.record(model) as alone:
            model(**given[name])
        assert tapes[name].keys() == alone.keys()
        assert all(torch.equal(tapes[name][where], alone[where]) for where in alone)
        assert_nothing_is_left(model)


def test_half_precision_is_looked_at_in_single() -> None:
    model = twins("llama")[0].bfloat16()
    with torch.inference_mode(), regard.record(model) as tape:
        model(**inputs("llama"))
    for weights in tape.values():
        assert weights.dtype == torch.float32
        real = weights[0]  # the first sentence has no padding
        torch.testing.assert_close(real.sum(-1), torch.ones(4, 9))


# ---- what else may be looked into ----


class SelfAttention(nn.Module):
    """As people write one for themselves."""

    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(8, 24)

    def forward(self, states: Tensor) -> Tensor:
        q, k, v = self.project(states).chunk(3, -1)
        return states + F.scaled_dot_product_attention(q, k, v, is_causal=True)


def test_any_model_that_calls_the_kernel_can_be_recorded() -> None:
    torch.manual_seed(0)
    model, states = nn.Sequential(SelfAttention(), nn.ReLU(), SelfAttention()), torch.randn(2, 5, 8)
    with regard.record(model) as tape:
        output = model(states)
    assert torch.equal(output, model(states))
    assert list(tape) == ["0", "2"]
    q, k, _ = model[0].project(states).chunk(3, -1)
    scores = (q @ k.mT / 8**0.5).masked_fill(torch.ones(5, 5).triu(1).bool(), -torch.inf)
    torch.testing.assert_close(tape["0"], scores.softmax(-1)[:, None])


def test_a_model_inside_another_is_found() -> None:
    inner, _ = twins("bert")
    outer = nn.ModuleDict({"encoder": inner, "head": nn.Linear(24, 2)})
    with torch.inference_mode(), regard.record(outer, layers=-1) as tape:
        inner(**inputs("bert"))
    assert list(tape) == ["encoder.encoder.layer.1.attention.self"]


class PictureBlock(nn.Module):
    """As the blocks of a Vision Transformer of timm are built: an `attn` that calls torch's kernel."""

    def __init__(self) -> None:
        super().__init__()
        self.attn = PictureAttention()

    def forward(self, states: Tensor) -> Tensor:
        return states + self.attn(states)


class PictureAttention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.proj = nn.Linear(8, 24), nn.Linear(8, 8)

    def forward(self, states: Tensor) -> Tensor:
        q, k, v = self.qkv(states).unflatten(-1, (3, 4, 2)).permute(2, 0, 3, 1, 4).unbind(0)
        return self.proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


class Captioner(nn.Module):
    """A backbone of another library, and regard's own attention to what it returns."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.blocks = nn.ModuleList(PictureBlock() for _ in range(2))
        self.cross_attention = MultiHeadAttention(8, heads=2)

    def forward(self, patches: Tensor, words: Tensor) -> Tensor:
        for block in self.blocks:
            patches = block(patches)
        return self.cross_attention(words, self.cross_attention.remember(patches)).context


def test_a_backbone_of_another_library_is_recorded_with_the_attentions_of_regard() -> None:
    model, patches, words = Captioner(), torch.randn(1, 6, 8), torch.randn(1, 3, 8)
    with regard.record(model) as tape:
        output = model(patches, words)
    assert torch.equal(output, model(patches, words))
    assert {name: tuple(weights.shape) for name, weights in tape.items()} == {
        "blocks.0.attn": (1, 4, 6, 6),
        "blocks.1.attn": (1, 4, 6, 6),
        "cross_attention": (1, 2, 3, 6),
    }
    q, k, _ = model.blocks[0].attn.qkv(patches).unflatten(-1, (3, 4, 2)).permute(2, 0, 3, 1, 4).unbind(0)
    torch.testing.assert_close(tape["blocks.0.attn"], (q @ k.mT / 2**0.5).softmax(-1))
    with record_own(model) as own:
        model(patches, words)
    assert torch.equal(own["cross_attention"], tape["cross_attention"])


def test_layers_heads_and_queries_are_chosen_among_both_kinds_of_attention() -> None:
    model, inputs = Captioner(), (torch.randn(1, 6, 8), torch.randn(1, 3, 8))
    for layers, names in (
        ("cross*", ["cross_attention"]),
        ("blocks.*", ["blocks.0.attn", "blocks.1.attn"]),
        (["blocks.1.*", "cross*"], ["blocks.1.attn", "cross_attention"]),
        (-1, ["blocks.1.attn", "cross_attention"]),
    ):
        with regard.record(model, layers=layers, heads=(head for head in (1,)), queries=-1) as tape:
            model(*inputs)
        assert list(tape) == names
        assert all(weights.shape == (1, 1, 1, 6) for weights in tape.values())
    with pytest.raises(UsageError, match=r"are: blocks\.0\.attn, blocks\.1\.attn, cross_attention"):
        regard.record(model, layers="decoder.*").__enter__()
    assert_nothing_is_left(model)


def test_a_model_of_regard_is_recorded_as_ever() -> None:
    model, states = MultiHeadAttention(8, heads=2), torch.randn(1, 5, 8)
    with regard.record(model, heads=1) as ours, record(model) as plain:
        model(states)
    assert torch.equal(ours[""], plain[""][:, 1:])
    assert kernel_attentions(model) == []


@pytest.mark.parametrize("model", [nn.Linear(2, 2), pytest.param("bloom", id="bloom")])
def test_a_model_that_cannot_be_recorded_is_refused_with_a_reason(model: nn.Module | str) -> None:
    if isinstance(model, str):  # its attention is written out, without any kernel
        model = transformers.BloomModel(transformers.BloomConfig(vocab_size=9, hidden_size=8, n_layer=1, n_head=2))
    told = r"no attention that can be recorded.*scaled_dot_product_attention"
    with pytest.raises(UsageError, match=told), regard.record(model):
        pass


def test_a_compiled_model_is_refused_rather_than_found_silent(gpt2: nn.Module) -> None:
    for model in (torch.compile(gpt2, backend="eager"), nn.Sequential(torch.compile(SelfAttention(), backend="eager"))):
        with pytest.raises(UsageError, match=r"is compiled.*before torch\.compile"):
            regard.record(model)
    in_place = SelfAttention()
    in_place.compile(backend="eager")
    with pytest.raises(UsageError, match="is compiled"):
        regard.record(in_place)


@pytest.mark.parametrize(
    ("choice", "told"),
    [
        ({"layers": 7}, r"no attention matches layer 7.*transformer\.h\.0\.attn"),
        ({"heads": 4}, r"there is no head 4 in transformer\.h\.0\.attn: it has 4, counted from 0"),
        ({"queries": -10}, r"there is no query -10"),
    ],
)
def test_a_choice_that_does_not_exist_is_named(gpt2: nn.Module, choice: dict[str, int], told: str) -> None:
    with pytest.raises(UsageError, match=told), torch.inference_mode(), regard.record(gpt2, **choice):
        gpt2(**inputs("gpt2"))
    assert_nothing_is_left(gpt2)


def test_an_attention_that_shows_nothing_is_named(gpt2: nn.Module) -> None:
    silent = transformers.AttentionInterface()
    assert "silent" not in silent
    transformers.AttentionInterface.register(
        "silent", lambda module, q, k, v, mask, **_: (v.transpose(1, 2).contiguous(), None)
    )
    model, _ = twins("gpt2")
    model.config._attn_implementation = "silent"
    try:
        told = r"h\.0\.attn attended without.*attn_implementation=\"sdpa\""
        with pytest.raises(UsageError, match=told), torch.inference_mode(), regard.record(model):
            model(torch.arange(3, 8)[None])
    finally:
        del silent._global_mapping["silent"]
    assert_nothing_is_left(model)


# ---- the kernel's equation ----


@pytest.mark.parametrize(
    "shape", [(5, 8), (2, 5, 8), (2, 3, 5, 8), (2, 2, 3, 5, 8)], ids=["no batch", "no heads", "heads", "more axes"]
)
@pytest.mark.parametrize("masked", ["", "causal", "bool", "float"])
def test_weights_read_what_the_kernel_reads(shape: tuple[int, ...], masked: str) -> None:
    """With the identity for values, the kernel's output *is* its weights."""
    torch.manual_seed(0)
    query, key = torch.randn(shape), torch.randn(*shape[:-2], 6, 8)
    value = torch.eye(6).expand(*shape[:-2], 6, 6)
    allowed = torch.rand(5, 6) < 0.7
    bias = torch.randn(5, 6).masked_fill(~allowed, -torch.inf)
    given = {"": {}, "causal": {"is_causal": True}, "bool": {"attn_mask": allowed}, "float": {"attn_mask": bias}}
    expected = F.scaled_dot_product_attention(query, key, value, scale=0.3, **given[masked])
    weights = KernelCall(query, key, value, scale=0.3, **given[masked]).weights(None, None, "")
    torch.testing.assert_close(weights.flatten(), expected.flatten())
    assert weights.dim() == 4


def test_grouped_heads_share_their_keys() -> None:
    torch.manual_seed(0)
    query, key, value = torch.randn(2, 6, 5, 8), torch.randn(2, 2, 5, 8), torch.eye(5).expand(2, 2, 5, 5)
    expected = F.scaled_dot_product_attention(query, key, value, enable_gqa=True)
    call = KernelCall(query, key, value, enable_gqa=True)
    torch.testing.assert_close(call.weights(None, None, ""), expected)
    torch.testing.assert_close(call.weights([5, 2], [4], ""), expected[:, [5, 2], 4:])


@pytest.mark.parametrize("as_bool", [True, False])
def test_a_row_that_may_attend_to_nothing_pays_zeros(as_bool: bool) -> None:
    query = torch.randn(1, 1, 3, 4)
    allowed = torch.tensor([[True, False, True], [False] * 3, [True] * 3])
    mask = allowed if as_bool else torch.zeros(3, 3).masked_fill(~allowed, -torch.inf)
    weights = KernelCall(query, query, query, attn_mask=mask).weights(None, None, "")
    assert (weights[0, 0, 1] == 0).all()
    torch.testing.assert_close(weights[0, 0, [0, 2]].sum(-1), torch.ones(2))


@pytest.mark.parametrize("module", [watching, elsewhere], ids=lambda module: module.__name__)
def test_whoever_has_no_transformers_model_needs_no_transformers(module: ModuleType) -> None:
    assert re.findall(r"^\s*(?:import|from) transformers", inspect.getsource(module), flags=re.MULTILINE) == []
