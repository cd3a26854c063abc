"""The Vision Transformer against its equations, the published sizes, and the reference implementation."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor
from torch.nn import functional as F

from regard import families
from regard.attention import record
from regard.data.images import Preprocessing
from regard.errors import RegardError, UsageError
from regard.models import vit
from regard.models.vit import PRESETS, Config, VisionTransformer
from regard.public.tensors import to_ours

SMALL = Config(labels=3, image_size=6, patch_size=2, channels=2, size=4, hidden_size=6, heads=2, layers=1)


@pytest.fixture(scope="module")
def small() -> VisionTransformer:
    torch.manual_seed(0)
    model = VisionTransformer(SMALL).eval()
    for parameter in model.parameters():  # nothing at zero or one, so that nothing can be forgotten
        torch.nn.init.normal_(parameter, std=0.5)
    return model


def layer_norm(x: Tensor, norm: Any) -> Tensor:
    spread = (x - x.mean()).square().mean()
    return (x - x.mean()) / torch.sqrt(spread + 1e-6) * norm.weight + norm.bias


def test_the_whole_model_is_the_papers_equations_spelt_out(small: VisionTransformer) -> None:
    image = torch.randn(2, 6, 6)
    (block,) = small.layers
    tokens = [small.class_token[0, 0]]
    for row in range(3):
        for column in range(3):
            patch = image[:, 2 * row : 2 * row + 2, 2 * column : 2 * column + 2]
            tokens.append(small.patches.weight.flatten(1) @ patch.flatten() + small.patches.bias)
    states = [token + small.positions[0, place] for place, token in enumerate(tokens)]

    normed = torch.stack([layer_norm(state, block.around_self_attention.norm) for state in states])
    attention = block.self_attention
    projected = normed @ attention.query_key_value.weight.T + attention.query_key_value.bias
    query, key, value = projected.split(4, dim=1)
    contexts = torch.empty(10, 4)
    for head in range(2):
        mine = slice(2 * head, 2 * head + 2)
        for i in range(10):
            scores = torch.stack([query[i, mine] @ key[j, mine] / math.sqrt(2) for j in range(10)])
            weights = scores.exp() / scores.exp().sum()
            contexts[i, mine] = sum(weights[j] * value[j, mine] for j in range(10))  # type: ignore[assignment]
    after = [state + attention.output(contexts[i]) for i, state in enumerate(states)]
    feed = block.feed_forward
    hidden = feed.expand(layer_norm(after[0], block.around_feed_forward.norm))
    last = after[0] + feed.contract(hidden * (1 + torch.erf(hidden / math.sqrt(2))) / 2)
    logits = small.head(layer_norm(last, small.norm))
    torch.testing.assert_close(small(image[None])[0], logits, atol=1e-5, rtol=1e-5)


def test_a_new_model_knows_nothing_and_its_first_step_moves_the_head_alone() -> None:
    model = VisionTransformer(SMALL)
    images = torch.randn(5, 2, 6, 6)
    assert not model(images).any()
    F.cross_entropy(model(images), torch.tensor([0, 1, 2, 0, 0])).backward()
    moved = {
        name for name, parameter in model.named_parameters() if parameter.grad is not None and parameter.grad.any()
    }
    assert moved == {"head.weight", "head.bias"}


def test_positions_begin_as_small_noise() -> None:
    torch.manual_seed(0)
    model = VisionTransformer(Config(labels=2, image_size=64, patch_size=4, size=64, hidden_size=8, heads=1, layers=1))
    assert model.positions.std().item() == pytest.approx(0.02, rel=0.05)
    assert model.patches.weight.std().item() == pytest.approx(48**-0.5, rel=0.05)


@pytest.mark.parametrize(("height", "width"), [(6, 6), (8, 8), (12, 4), (2, 2), (7, 9)])
def test_any_size_of_image_is_read_and_recorded(small: VisionTransformer, height: int, width: int) -> None:
    rows, columns = small.grid(height, width)
    with record(small) as tape:
        logits = small(torch.randn(2, 2, height, width))
    assert torch.isfinite(logits).all()
    assert tape["layers.0.self_attention"].shape == (2, 2, 1 + rows * columns, 1 + rows * columns)


def test_the_class_tokens_position_is_not_interpolated(small: VisionTransformer) -> None:
    assert torch.equal(small._positions(5, 4)[:, 0], small.positions[:, 0])
    assert torch.equal(small._positions(3, 3), small.positions)


def test_positions_of_a_flat_picture_stay_flat() -> None:
    model = VisionTransformer(SMALL)
    with torch.no_grad():
        model.positions[:, 1:] = 0.7
    torch.testing.assert_close(model._positions(7, 2)[:, 1:], torch.full((1, 14, 4), 0.7))


def test_pixels_beyond_the_last_whole_patch_are_not_read(small: VisionTransformer) -> None:
    images = torch.randn(1, 2, 7, 7)
    other = images.clone()
    other[:, :, 6] = other[:, :, :, 6] = 9.0
    assert torch.equal(small(images), small(other))
    torch.testing.assert_close(small(images), small(images[:, :, :6, :6]))


def test_an_image_smaller_than_a_patch_is_told_in_one_line(small: VisionTransformer) -> None:
    with pytest.raises(RegardError, match="an image of 1 x 1 pixels holds no patch of 2 x 2"):
        small(torch.randn(1, 2, 1, 1))


def test_patches_larger_than_the_image_are_refused() -> None:
    with pytest.raises(UsageError, match="patches of 8 pixels do not fit into images of 6"):
        Config(labels=2, image_size=6, patch_size=8)


# With the 1,000 labels of ImageNet at 224 pixels, as torchvision and timm count them.
PUBLISHED = {
    "ti16": 5_717_416,
    "s16": 22_050_664,
    "s32": 22_878_952,
    "b16": 86_567_656,
    "b32": 88_224_232,
    "l16": 304_326_632,
    "l32": 306_535_400,
    "h14": 632_045_800,
}


@pytest.mark.parametrize("size", PUBLISHED)
def test_presets_have_the_published_number_of_parameters(size: str) -> None:
    family, config = families.resolve({"preset": f"vit:{size}"}, labels=1000)
    with torch.device("meta"):
        model = families.build_model(family, config)
    assert sum(parameter.numel() for parameter in model.parameters()) == PUBLISHED[size]


def test_the_small_preset_is_small() -> None:
    model = VisionTransformer(Config(labels=10, **PRESETS["grey28"]))  # type: ignore[arg-type]
    assert sum(parameter.numel() for parameter in model.parameters()) == 205_962
    assert model(torch.zeros(1, 1, 28, 28)).shape == (1, 10)


# The reference implementation.


@pytest.fixture(scope="module", params=["gelu", "gelu_new"])
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[VisionTransformer, Any]:
    """Ours with the weights of theirs, read from the file theirs is saved to, both in double precision."""
    transformers = pytest.importorskip("transformers", reason="transformers is the reference and is not installed")
    from safetensors.torch import load_file

    torch.manual_seed(0)
    public = transformers.ViTConfig(
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=40,
        image_size=8,
        patch_size=4,
        num_labels=5,
        hidden_act=request.param,
        initializer_range=0.3,
    )
    theirs = transformers.ViTForImageClassification(public).eval()
    folder = tmp_path_factory.mktemp("public")
    theirs.save_pretrained(folder)
    ours = VisionTransformer(vit.public_config(public.to_dict())).eval()
    shapes = {name: tensor.shape for name, tensor in ours.state_dict().items()}
    ours.load_state_dict(to_ours(load_file(folder / "model.safetensors"), vit.public_names(ours.config), shapes))
    return ours.double(), theirs.double()


@pytest.mark.parametrize(("height", "width"), [(8, 8), (16, 16), (12, 8), (20, 28)])
def test_logits_and_attention_are_the_references_at_any_resolution(
    pair: tuple[VisionTransformer, Any], height: int, width: int
) -> None:
    ours, theirs = pair
    images = torch.randn(3, 3, height, width, dtype=torch.double)
    with torch.no_grad(), record(ours) as tape:
        logits = ours(images)
        theirs.set_attn_implementation("sdpa")
        wanted = theirs(images, interpolate_pos_encoding=True).logits
        theirs.set_attn_implementation("eager")  # the one that tells its weights, whose softmax is in float32
        weights = theirs(images, interpolate_pos_encoding=True, output_attentions=True).attentions
    torch.testing.assert_close(logits, wanted, atol=1e-10, rtol=1e-10)
    for found, expected in zip(tape.values(), weights, strict=True):
        torch.testing.assert_close(found, expected, atol=1e-6, rtol=1e-5)


def test_loss_and_gradients_are_the_references(pair: tuple[VisionTransformer, Any]) -> None:
    ours, theirs = pair
    images, labels = torch.randn(4, 3, 8, 8, dtype=torch.double), torch.tensor([0, 4, 2, 2])
    theirs.set_attn_implementation("sdpa")
    ours.zero_grad(), theirs.zero_grad()
    loss = F.cross_entropy(ours(images), labels)
    loss.backward()
    wanted = theirs(images, labels=labels).loss
    wanted.backward()
    torch.testing.assert_close(loss, wanted)
    embeddings = theirs.vit.embeddings
    for mine, other in [
        (ours.positions, embeddings.position_embeddings),
        (ours.class_token, embeddings.cls_token),
        (ours.patches.weight, embeddings.patch_embeddings.projection.weight),
        (ours.head.weight, theirs.classifier.weight),
    ]:
        torch.testing.assert_close(mine.grad, other.grad, atol=1e-10, rtol=1e-8)


def test_an_exported_config_is_read_by_the_reference(pair: tuple[VisionTransformer, Any], tmp_path: Path) -> None:
    import json

    import transformers

    ours, theirs = pair
    (tmp_path / "config.json").write_text(json.dumps(vit.to_public_config(ours.config)))
    read = transformers.AutoConfig.from_pretrained(tmp_path)
    assert type(read) is type(theirs.config)
    assert vit.public_config(read.to_dict()) == ours.config
    shapes = {name: tensor.shape for name, tensor in theirs.state_dict().items()}
    rebuilt = transformers.ViTForImageClassification(read)
    assert {name: tensor.shape for name, tensor in rebuilt.state_dict().items()} == shapes


def test_the_reference_reads_our_preprocessing_and_prepares_the_same(
    pair: tuple[VisionTransformer, Any], tmp_path: Path
) -> None:
    from transformers.models.vit.image_processing_pil_vit import ViTImageProcessorPil

    ours = Preprocessing((9, 7), (0.4,) * 3, (0.3,) * 3)
    (tmp_path / "preprocessor_config.json").write_text(ours.to_json())
    theirs = ViTImageProcessorPil.from_pretrained(tmp_path)
    picture = np.random.default_rng(0).integers(0, 256, (20, 30, 3), dtype=np.uint8)
    wanted = torch.from_numpy(np.asarray(theirs(Image.fromarray(picture))["pixel_values"]))
    found = ours.normalise(torch.from_numpy(ours.pixels(picture).copy())[None])
    torch.testing.assert_close(found, wanted.to(found))


def test_a_config_without_words_is_the_references_own() -> None:
    assert vit.public_config({}) == Config(labels=2, epsilon=1e-12)
    assert vit.public_config({"id2label": {"0": "cat", "1": "dog", "2": "eel"}, "image_size": [384, 384]}).labels == 3


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"model_type": "deit"}, "model_type is 'deit'"),
        ({"hidden_act": "quick_gelu"}, "hidden_act 'quick_gelu'"),
        ({"qkv_bias": False}, "qkv_bias is false"),
        ({"image_size": [224, 160]}, r"image_size is \[224, 160\]; only squares"),
        ({"problem_type": "multi_label_classification"}, "problem_type 'multi_label_classification'"),
    ],
)
def test_public_settings_that_are_not_here_are_named(values: dict[str, Any], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        vit.public_config(values)
