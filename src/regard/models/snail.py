"""SNAIL for few-shot learning: "A Simple Neural Attentive Meta-Learner" (Mishra, Rohaninejad, Chen & Abbeel 2018,
https://arxiv.org/abs/1707.03141).

    x_t    = embedding(image_t)                        four times [3 x 3 convolution, batch norm, ReLU, 2 x 2 max-pool],
                                                       then an affine layer
    s_t    = [x_t; one-hot(label_t)]                   an example; of a query the label is zeros
    h      = blocks(s_1, ..., s_{N K}, query)          Att(64, 32), TC(128), Att(256, 128), TC(128), Att(512, 256)
    logits = W h_query + b                             over N labels

Nothing is learnt about any one class: which sign belongs to which label is told by the N K examples alone, and the
labels are drawn anew for every episode. The blocks are in `regard.layers.temporal`.

The blocks are causal, so the examples do not depend on the query: here any number of queries share one reading of
them, each as if it were the only one (the paper has one query per episode). Batch norm is the paper's: while training,
the pictures of a batch share their statistics (padding is not among them); afterwards a picture's embedding depends on
that picture alone.
"""

from dataclasses import dataclass, fields

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from regard.errors import UsageError
from regard.layers.temporal import Temporal, block_sizes, padding_first

Examples = Float[Tensor, "batch examples channels height width"]
Queries = Float[Tensor, "batch queries channels height width"]
Labels = Int[Tensor, "batch examples"]
Mask = Bool[Tensor, "batch examples"]


@dataclass(frozen=True)
class Config:
    """The sizes of a few-shot SNAIL."""

    ways: int = 5  # N, the labels of an episode
    shots: int = 1  # K, the examples of each that the TC blocks are to cover
    image_size: int = 28
    channels: int = 1
    filters: int = 64  # of each convolution of the embedding
    layers: int = 4  # of the embedding; each halves the picture
    embedding_size: int = 64
    blocks: tuple[str, ...] = ("att 64 32", "tc 128", "att 256 128", "tc 128", "att 512 256")

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, int) and value < 1:
                raise UsageError(f"model.{field.name} is {value} but must be at least 1")
        if self.ways < 2:
            raise UsageError("model.ways is 1 but must be at least 2: with one label there is nothing to tell apart")
        if self.image_size >> self.layers < 1:
            raise UsageError(
                f"model.layers={self.layers} halve a picture of {self.image_size} pixels away: give fewer layers"
            )
        for block in self.blocks:
            block_sizes(block)


PRESETS: dict[str, dict[str, object]] = {
    "omniglot": dict(),  # the paper's
    "small": dict(filters=32, blocks=("att 32 16", "tc 32", "att 64 32", "tc 32", "att 128 64")),
    "tiny": dict(filters=8, embedding_size=16, blocks=("att 8 8", "tc 8", "att 16 16")),
}


class Convolution(nn.Conv2d):
    """With the channels of a pixel side by side in memory, which a CPU reads a third quicker.

    The weights themselves stay as they are: optimisers and checkpoints want them in one piece.
    """

    def forward(
        self, images: Float[Tensor, "count channels height width"]
    ) -> Float[Tensor, "count filters height width"]:
        return self._conv_forward(images, self.weight.clone(memory_format=torch.channels_last), self.bias)


class Embedding(nn.Sequential):
    """One vector per picture."""

    def __init__(self, config: Config):
        layers: list[nn.Module] = []
        channels = config.channels
        for _ in range(config.layers):
            # The paper's ReLU comes before the max-pool; behind it, it says the same at a quarter of the cost.
            convolution = Convolution(channels, config.filters, 3, padding=1, bias=False)  # the norm has a bias
            layers += [convolution, nn.BatchNorm2d(config.filters), nn.MaxPool2d(2), nn.ReLU()]
            channels = config.filters
        side = config.image_size >> config.layers
        super().__init__(*layers, nn.Flatten(), nn.Linear(channels * side * side, config.embedding_size))


class Snail(nn.Module):
    """Examples with labels, and queries without, to one row of logits per query."""

    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        self.embedding = Embedding(config)
        length = config.ways * config.shots + 1
        self.temporal = Temporal(config.embedding_size + config.ways, length, config.blocks)
        self.output = nn.Linear(self.temporal.output_size, config.ways)

    def forward(
        self, images: Examples, labels: Labels, queries: Queries, mask: Mask | None = None
    ) -> Float[Tensor, "batch queries ways"]:
        """`mask` says which examples are real."""
        real = torch.ones_like(labels, dtype=torch.bool) if mask is None else mask
        shown, asked = images[real], queries.flatten(0, 1)
        vectors = self.embed(torch.cat([shown, asked]))
        examples = vectors.new_zeros(*labels.shape, vectors.shape[-1])
        examples[real] = vectors[: len(shown)]
        return self.answer(examples, labels, vectors[len(shown) :].unflatten(0, queries.shape[:2]), mask)

    def embed(self, images: Float[Tensor, "count channels height width"]) -> Float[Tensor, "count size"]:
        return self.embedding(images.contiguous(memory_format=torch.channels_last))

    def answer(
        self,
        examples: Float[Tensor, "batch examples size"],
        labels: Labels,
        queries: Float[Tensor, "batch queries size"],
        mask: Mask | None = None,
    ) -> Float[Tensor, "batch queries ways"]:
        """The logits of queries that are embedded already."""
        if mask is not None:
            order = padding_first(mask)
            examples = examples.gather(1, order[..., None].expand_as(examples))
            labels, mask = labels.gather(1, order), mask.gather(1, order)
        told = F.one_hot(labels, self.config.ways).to(examples.dtype)
        states = torch.cat([torch.cat([examples, told], -1), F.pad(queries, (0, self.config.ways))], 1)
        if mask is not None:
            mask = F.pad(mask, (0, queries.shape[1]), value=True)
            states = states.masked_fill(~mask[..., None], 0.0)
        return self.output(self.temporal(states, mask, queries.shape[1])[:, labels.shape[1] :])


FAMILIES = {"snail": Snail}
