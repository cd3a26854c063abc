"""ELMo: the equations of its two directions, its published weights, and its size."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from regard.data.characters import Characters
from regard.errors import RegardError, UsageError
from regard.models.elmo import PRESETS, Config, Elmo, public_config, public_names, read_original

SENTENCES = [["the", "red", "car"], ["attention"], ["so", "it", "goes", "on"]]
OPTIONS: dict[str, Any] = {
    "lstm": {
        "use_skip_connections": True,
        "n_layers": 2,
        "dim": 8,
        "projection_dim": 4,
        "cell_clip": 3,
        "proj_clip": 3,
    },
    "char_cnn": {
        "embedding": {"dim": 3},
        "filters": [[1, 2], [3, 4]],
        "n_highway": 1,
        "n_characters": 262,
        "max_characters_per_token": 12,
        "activation": "relu",
    },
}


def spelt(sentences: list[list[str]], width: int = 12) -> Tensor:
    return torch.from_numpy(Characters(width).batch(sentences))


def model(**changes: Any) -> Elmo:
    torch.manual_seed(0)
    return Elmo(Config(**{**dict(vocabulary=9, size=4, cell_size=8, filters=(3, 4), max_chars=12), **changes})).eval()


def test_both_directions_are_compared_with_the_same_words() -> None:
    elmo, chars = model(), spelt(SENTENCES)
    last = elmo.represent(chars)[0][-1]
    said = elmo(chars)
    torch.testing.assert_close(said[:, :, 0], last[..., :4] @ elmo.output_weight.T)
    torch.testing.assert_close(said[:, :, 1], last[..., 4:] @ elmo.output_weight.T)


def test_the_published_size_is_that_of_the_paper() -> None:
    with torch.device("meta"):
        elmo = Elmo(Config(vocabulary=0, **PRESETS["original"]))  # type: ignore[arg-type]
    count = sum(parameter.numel() for parameter in elmo.parameters())
    assert round(count / 1e6, 1) == 93.6


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_can_be_built(name: str) -> None:
    with torch.device("meta"):
        Elmo(Config(vocabulary=10, **PRESETS[name]))  # type: ignore[arg-type]


def test_without_a_softmax_words_are_represented_but_not_said() -> None:
    elmo = model(vocabulary=0)
    assert elmo.represent(spelt(SENTENCES))[0].shape == (3, 3, 6, 8)
    with pytest.raises(UsageError, match="no softmax"):
        elmo(spelt(SENTENCES))


def published(folder: Path) -> dict[str, Any]:
    """A small ELMo in the published form, with weights drawn at random; what was drawn is returned."""
    h5py = pytest.importorskip("h5py")
    draw = np.random.default_rng(0)
    cell = {"W_0": (8, 32), "B": (32,), "W_P_0": (8, 4)}
    shapes: dict[str, tuple[int, ...]] = {
        "char_embed": (261, 3),
        "CNN/W_cnn_0": (1, 1, 3, 2),
        "CNN/b_cnn_0": (2,),
        "CNN/W_cnn_1": (1, 3, 3, 4),
        "CNN/b_cnn_1": (4,),
        "CNN_proj/W_proj": (6, 4),
        "CNN_proj/b_proj": (4,),
        **{f"CNN_high_0/W_{kind}": (6, 6) for kind in ("carry", "transform")},
        **{f"CNN_high_0/b_{kind}": (6,) for kind in ("carry", "transform")},
        **{
            f"RNN_{way}/RNN/MultiRNNCell/Cell{layer}/LSTMCell/{name}": shape
            for way in (0, 1)
            for layer in (0, 1)
            for name, shape in cell.items()
        },
    }
    arrays = {name: draw.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    with h5py.File(folder / "weights.hdf5", "w") as file:
        for name, array in arrays.items():
            file[name] = array
    (folder / "options.json").write_text(json.dumps(OPTIONS), "utf-8")
    return arrays


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def original_layers(arrays: dict[str, Any], word_rows: Any) -> tuple[list[Any], list[Any]]:
    """Forward and backward states of both layers for one sentence, as the published code computes them."""
    words = []
    for row in word_rows:
        embedded = np.concatenate([np.zeros((1, 3)), arrays["char_embed"]])[row]
        found = []
        for number, width in ((0, 1), (1, 3)):
            weight, bias = arrays[f"CNN/W_cnn_{number}"][0], arrays[f"CNN/b_cnn_{number}"]
            windows = [embedded[at : at + width] for at in range(len(row) - width + 1)]
            found.append(np.max([np.einsum("wc,wcf->f", window, weight) for window in windows], axis=0) + bias)
        y = np.maximum(np.concatenate(found), 0)
        carry = sigmoid(y @ arrays["CNN_high_0/W_carry"] + arrays["CNN_high_0/b_carry"])
        changed = np.maximum(y @ arrays["CNN_high_0/W_transform"] + arrays["CNN_high_0/b_transform"], 0)
        y = carry * changed + (1 - carry) * y
        words.append(y @ arrays["CNN_proj/W_proj"] + arrays["CNN_proj/b_proj"])
    ways = []
    for way, order in ((0, 1), (1, -1)):
        read, layers = words[::order], []
        for layer in (0, 1):
            w, b, p = (
                arrays[f"RNN_{way}/RNN/MultiRNNCell/Cell{layer}/LSTMCell/{name}"] for name in ("W_0", "B", "W_P_0")
            )
            c, h, states = np.zeros(8), np.zeros(4), []
            for x in read:
                i, j, f, o = np.split(np.concatenate([x, h]) @ w + b, 4)
                c = np.clip(sigmoid(f + 1) * c + sigmoid(i) * np.tanh(j), -3, 3)
                h = np.clip((sigmoid(o) * np.tanh(c)) @ p, -3, 3)
                states.append(h + x if layer else h)
            layers.append(states[::order])
            read = states
        ways.append(layers)
    return ways[0], ways[1]


def test_a_published_model_is_read_as_its_code_computes_it(tmp_path: Path) -> None:
    arrays = published(tmp_path)
    elmo = read_original(tmp_path / "options.json", tmp_path / "weights.hdf5")
    chars = spelt(SENTENCES[:1])
    layers, _ = elmo.represent(chars)
    forward, backward = original_layers(arrays, chars[0].numpy())
    for layer in (0, 1):
        expected = np.concatenate([forward[layer], backward[layer]], axis=-1)
        np.testing.assert_allclose(layers[layer + 1, 0].detach().numpy(), expected, atol=1e-5)


def test_the_table_names_every_parameter_once() -> None:
    config = public_config(OPTIONS)
    assert set(public_names(config)) == set(Elmo(config).state_dict())


@pytest.mark.real_data
def test_the_published_fixture_is_reproduced_with_its_states(real_data: Path) -> None:
    h5py = pytest.importorskip("h5py")
    folder = real_data / "elmo_fixture"
    if not folder.is_dir():
        pytest.skip("REGARD_DATA has no elmo_fixture")
    elmo = read_original(folder / "options.json", folder / "lm_weights.hdf5")
    lists = json.loads((folder / "lm_embeddings_sentences.json").read_text("utf-8"))
    characters, carried = Characters(elmo.config.max_chars), None
    for number in range(10):
        sentences = [known[number].split() for known in lists]
        with torch.no_grad():
            layers, carried = elmo.represent(torch.from_numpy(characters.batch(sentences)), carried)
        for row, words in enumerate(sentences):
            with h5py.File(folder / f"lm_embeddings_{row}.hdf5", "r") as file:
                expected = file[str(number)][...]  # [directions, words, size]
            found = layers[-1, row, 1 : 1 + len(words)].unflatten(-1, (2, -1)).transpose(0, 1)
            np.testing.assert_allclose(found.numpy(), expected, atol=1e-5)


@pytest.mark.parametrize(
    ("part", "key", "value", "told"),
    [
        ("char_cnn", "filters", [[3, 4], [1, 2]], "listed by width"),
        ("char_cnn", "n_characters", 100, "n_characters is 100"),
        ("char_cnn", "activation", "swish", "activation"),
        ("char_cnn", "embedding", None, "not those of an ELMo"),
        ("lstm", "dim", 0, "cell_size is 0"),
    ],
)
def test_options_we_cannot_read_are_refused(part: str, key: str, value: object, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        Elmo(public_config({**OPTIONS, part: {**OPTIONS[part], key: value}}))


def test_options_that_are_not_there_or_not_json_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"options\.json"):
        read_original(tmp_path / "options.json", tmp_path / "weights.hdf5")
    (tmp_path / "options.json").write_text("{", "utf-8")
    with pytest.raises(UsageError, match="not a readable"):
        read_original(tmp_path / "options.json", tmp_path / "weights.hdf5")
    (tmp_path / "options.json").write_text("{}", "utf-8")
    with pytest.raises(UsageError, match="not those of an ELMo"):
        read_original(tmp_path / "options.json", tmp_path / "weights.hdf5")


def test_damaged_weights_are_refused_in_one_line(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    published(tmp_path)
    weights = tmp_path / "weights.hdf5"
    with h5py.File(weights, "a") as file:
        del file["CNN/b_cnn_0"]
    with pytest.raises(RegardError, match="CNN/b_cnn_0"):
        read_original(tmp_path / "options.json", weights)
    with h5py.File(weights, "a") as file:
        file["CNN/b_cnn_0"] = np.zeros(7, dtype=np.float32)
    with pytest.raises(RegardError, match="do not belong"):
        read_original(tmp_path / "options.json", weights)
    weights.write_bytes(weights.read_bytes()[:100])
    with pytest.raises(RegardError, match="fetch the file again") as caught:
        read_original(tmp_path / "options.json", weights)
    assert "\n" not in str(caught.value)


def test_a_model_without_layers_is_refused() -> None:
    with pytest.raises(UsageError, match="layers is 0"):
        model(layers=0)
