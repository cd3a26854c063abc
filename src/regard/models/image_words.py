"""Which words do people use of a picture? A convolutional network that learns to see from captions alone.

    a_1 ... a_L = CNN(I),    p(w | I) = sigmoid(mean_i (w . a_i) + b_w)

The target of a word is the share of a picture's captions that use it. The mean stands outside of the product, so every
region votes for every word: where a word's vote is strongest is a class activation map (Zhou et al. 2016), and regions
come out that mean something by themselves, which is what a captioner with attention will look at. Detecting words
before saying sentences is the idea of Fang et al. 2015, whose detectors combine the regions by a noisy-or.
"""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor, nn

from regard.layers.dropout import Dropout
from regard.layers.image_encoder import ImageEncoder, Images, Regions


@dataclass(frozen=True)
class Config:
    """The network and how many words it looks for."""

    labels: int  # words
    backbone: str = "small_cnn"  # or timm:NAME
    image_size: int = 128  # pixels of each side
    dropout: float = 0.2


PRESETS: dict[str, dict[str, object]] = {"small": dict(), "timm": dict(backbone="timm:resnet18", image_size=224)}


class ImageWords(nn.Module):
    """An encoder of pictures with a head it will not need later."""

    reads = "images"

    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        self.encoder = ImageEncoder(config.backbone, config.image_size)
        self.dropout = Dropout(config.dropout)
        self.head = nn.Linear(self.encoder.size, config.labels)
        nn.init.constant_(self.head.bias, -3.0)  # most words are not used of most pictures

    def forward(self, images: Images) -> Float[Tensor, "batch words"]:
        """One logit per word."""
        return self.head(self.dropout(self.encoder(images).mean(1)))

    def votes(self, images: Images) -> Float[Tensor, "batch regions words"]:
        """The logits every region would give by itself; their mean is the picture's."""
        regions: Regions = self.encoder(images)
        return self.head(regions)


FAMILIES = {"image-words": ImageWords}
