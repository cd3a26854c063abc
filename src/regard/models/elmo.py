"""ELMo, "Deep contextualized word representations" (Peters et al. 2018): a language model that reads both ways.

    x_k = CharCNN(t_k);   h→_k,j and h←_k,j from LSTMs with projection, j = 1, ..., L       see regard.layers.bilm
    log p(t_k | t_1, ..., t_k-1) = log softmax(Θ_s h→_k-1,L)[t_k]
    log p(t_k | t_k+1, ..., t_n) = log softmax(Θ_s h←_k+1,L)[t_k]          both are maximised together
    ELMo_k = γ Σ_j s_j [h→_k,j; h←_k,j],   h_k,0 = [x_k; x_k]              see regard.layers.scalar_mix

CharCNN and Θ_s serve both directions. The softmax here has no bias. `read_original` opens the published weights, which
come without a softmax: `vocabulary` is 0, and the model represents words but says none.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from regard.errors import RegardError, UsageError, shortened, told
from regard.layers.bilm import BidirectionalReader, ReaderSizes
from regard.layers.char_cnn import CHARACTERS
from regard.layers.dropout import Dropout
from regard.layers.projected_lstm import Carried

Chars = Int[Tensor, "batch length characters"]


@dataclass(frozen=True, kw_only=True)
class Config(ReaderSizes):
    """The reader's sizes, and how many words the softmax can say."""

    vocabulary: int  # 0 for none

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.layers < 1:
            raise UsageError(f"model.layers is {self.layers} but a language model needs at least 1")


PRESETS: dict[str, dict[str, object]] = {
    "tiny": dict(size=64, cell_size=128, filters=(8, 16, 32, 32, 40), highways=1, char_size=12, max_chars=30),
    "small": dict(size=128, cell_size=512, filters=(16, 32, 64, 72, 72), highways=1, max_chars=32),
    "medium": dict(size=256, cell_size=2048, max_chars=50),
    "original": dict(size=512, cell_size=4096),
}


class Elmo(nn.Module):
    """Reads sentences of words spelt in characters; 0 as the first character is padding."""

    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        self.reader = BidirectionalReader(config)
        self.dropout = Dropout(config.dropout)
        self.output = nn.Linear(config.size, config.vocabulary, bias=False) if config.vocabulary else None
        if self.output is not None:
            nn.init.normal_(self.output.weight, std=config.size**-0.5)

    def forward(self, chars: Chars) -> Float[Tensor, "batch length 2 vocabulary"]:
        """Logits of the word after each word, and of the word before it."""
        return F.linear(self.ends(chars)[0], self.output_weight)

    def represent(
        self, chars: Chars, carried: tuple[Carried, ...] | None = None
    ) -> tuple[Float[Tensor, "layers batch length both"], tuple[Carried, ...]]:
        """Every layer of every word, the characters' own layer first."""
        return self.reader(chars, carried)

    def ends(
        self, chars: Chars, carried: tuple[Carried, ...] | None = None
    ) -> tuple[Float[Tensor, "batch length 2 size"], tuple[Carried, ...]]:
        """The last layer's states, forward and backward, to be compared with `output_weight`."""
        layers, carried = self.reader(chars, carried)
        return self.dropout(layers[-1].unflatten(-1, (2, -1))), carried

    @property
    def output_weight(self) -> Float[Tensor, "vocabulary size"]:
        if self.output is None:
            raise UsageError("this ELMo has no softmax: it represents words but cannot say any")
        return self.output.weight


FAMILIES = {"elmo": Elmo}


# The published form: options.json and weights in HDF5, in TensorFlow's layout.

WIDEST = 1000  # characters of a filter
MOST_UNPACKED = 16  # times the size of its file; an array of weights hardly shrinks


def public_config(options: Mapping[str, Any]) -> Config:
    """From `options.json`; filters must be listed by width."""
    try:
        lstm, cnn = options["lstm"], options["char_cnn"]
        filters = {int(width): int(count) for width, count in cnn["filters"]}
        if list(filters) != sorted(filters) or len(filters) != len(cnn["filters"]) or min(filters) < 1:
            known = shortened(cnn["filters"])
            raise UsageError(f"char_cnn.filters is {known}: filters that are not listed by width are not read")
        if max(filters) > WIDEST:
            raise UsageError(f"char_cnn.filters has one of width {max(filters)}; the widest may be {WIDEST}")
        if int(cnn.get("n_characters", CHARACTERS)) not in (CHARACTERS, CHARACTERS - 1):
            raise UsageError(f"char_cnn.n_characters is {shortened(cnn['n_characters'])} but must be {CHARACTERS}")
        return Config(
            vocabulary=0,
            size=int(lstm["projection_dim"]),
            cell_size=int(lstm["dim"]),
            layers=int(lstm["n_layers"]),
            char_size=int(cnn["embedding"]["dim"]),
            filters=tuple(filters.get(width, 0) for width in range(1, max(filters) + 1)),
            max_chars=int(cnn["max_characters_per_token"]),
            highways=int(cnn["n_highway"]),
            activation=str(cnn["activation"]),
            residual=bool(lstm["use_skip_connections"]),
            cell_clip=float(lstm["cell_clip"] or 0) or None,
            projection_clip=float(lstm["proj_clip"] or 0) or None,
            dropout=float(options.get("dropout", 0.1)),
        )
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise UsageError(f"the options are not those of an ELMo ({type(error).__name__}: {told(error)})") from error


def public_names(config: Config) -> dict[str, tuple[str, ...]]:
    """Our parameters by the published arrays they are made of (see `from_public` for how)."""
    names: dict[str, tuple[str, ...]] = {"reader.words.embedding.weight": ("char_embed",)}
    for number in range(sum(count > 0 for count in config.filters)):
        names[f"reader.words.filters.{number}.weight"] = (f"CNN/W_cnn_{number}",)
        names[f"reader.words.filters.{number}.bias"] = (f"CNN/b_cnn_{number}",)
    for number in range(config.highways):
        for ours, theirs in (("transform", "transform"), ("gate", "carry")):
            names[f"reader.words.highways.{number}.{ours}.weight"] = (f"CNN_high_{number}/W_{theirs}",)
            names[f"reader.words.highways.{number}.{ours}.bias"] = (f"CNN_high_{number}/b_{theirs}",)
    names["reader.words.output.weight"], names["reader.words.output.bias"] = ("CNN_proj/W_proj",), ("CNN_proj/b_proj",)
    for number in range(config.layers):
        cells = [f"RNN_{way}/RNN/MultiRNNCell/Cell{number}/LSTMCell" for way in (0, 1)]
        for ours, theirs in (("input_weight", "W_0"), ("weight", "W_0"), ("bias", "B"), ("projection", "W_P_0")):
            names[f"reader.layers.{number}.{ours}"] = tuple(f"{cell}/{theirs}" for cell in cells)
    return names


def from_public(name: str, arrays: list[Tensor], config: Config) -> Tensor:
    """One of our parameters from its published arrays."""
    kind = name.rpartition(".")[2]
    if name == "reader.words.embedding.weight":
        return F.pad(arrays[0], (0, 0, 1, 0))  # nothing is published for 0, which stands for no word
    if ".filters." in name and kind == "weight":
        return arrays[0].squeeze(0).permute(2, 1, 0)  # [1, width, char, filter]
    if not name.startswith("reader.layers."):
        return arrays[0].T if kind == "weight" else arrays[0]
    both = torch.stack(arrays)
    if kind == "bias":  # in the order i, g, f, o; TensorFlow adds 1 to f while it runs
        forget = slice(2 * config.cell_size, 3 * config.cell_size)
        both[:, forget] += 1.0
        return both
    if kind == "projection":
        return both.mT
    parts = {"input_weight": slice(config.size), "weight": slice(config.size, None)}  # of [x; h]
    return both[:, parts[kind]].mT


def read_original(options: str | Path, weights: str | Path) -> Elmo:
    """A published ELMo from its two files."""
    try:
        values = json.loads(Path(options).read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"{options}: not a readable options.json ({told(error)})") from error
    if not isinstance(values, dict):
        raise UsageError(f"{options}: holds no object; an options.json has lstm and char_cnn")
    config = public_config(values)
    try:
        with torch.device("meta"):
            model = Elmo(config)
    except (RuntimeError, TypeError, ValueError) as error:
        raise UsageError(f"{options}: no ELMo has these sizes ({told(error)})") from error
    expected, found = model.state_dict(), {}
    for name, published in public_names(config).items():
        arrays = _arrays(weights, published)
        try:
            found[name] = from_public(name, arrays, config).contiguous()
        except (RuntimeError, IndexError) as error:  # of another number of dimensions, or not alike
            raise RegardError(f"{weights}: {published[0]} does not make {name} ({told(error)})") from error
        if found[name].shape != expected[name].shape:
            shapes = f"{tuple(found[name].shape)} instead of {tuple(expected[name].shape)}"
            raise RegardError(f"{weights}: {published[0]} makes {name} {shapes}; the options do not belong to it")
    model.load_state_dict(found, assign=True)
    return model.eval()


def _arrays(weights: str | Path, names: tuple[str, ...]) -> list[Tensor]:
    try:
        import h5py
    except ImportError as error:
        raise RegardError(f"{weights}: reading HDF5 needs h5py; run: pip install 'regard[elmo]'") from error
    try:
        with h5py.File(weights, "r") as file:
            return [torch.from_numpy(_array(h5py, file, name, Path(weights).stat().st_size)).float() for name in names]
    except (ArithmeticError, AttributeError, LookupError, OSError, RuntimeError, TypeError, ValueError) as error:
        raise RegardError(f"{weights}: {names[0]} cannot be read ({told(error)}); fetch the file again") from error


def _array(h5py: Any, file: Any, name: str, file_size: int) -> Any:
    """What stands under this name in the file itself: a link may lead to another file, and so may an array."""
    place = file
    for part in name.split("/"):
        if not isinstance(place.get(part, getlink=True), h5py.HardLink):
            raise ValueError(f"{part} is not in the file itself")
        place = place[part]
    if not isinstance(place, h5py.Dataset) or place.dtype.kind != "f" or place.external or place.is_virtual:
        raise ValueError("it is not an array of numbers in the file itself")
    if place.nbytes > MOST_UNPACKED * file_size:
        raise ValueError(f"{place.nbytes} bytes in a file of {file_size}")
    return place[...]
