"""Show and Tell: a neural image caption generator (Vinyals, Toshev, Bengio and Erhan 2015).

    x_{-1} = W_i CNN(I)                    the picture, read once                                (10)
    x_t    = W_e S_t                       the words, S_0 the start                              (11)
    p_{t+1} = softmax(W_o LSTM(x_t))                                                             (12)

The picture is the first input of the LSTM and is never seen again: there is no attention, and everything the caption
will say must fit into the state it leaves behind. CNN(I) is the mean of the picture's regions. The decoder reads
regions, not pixels, so that a frozen encoder need run only once; all words of a batch are one fused call.
"""

from dataclasses import dataclass

from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention import masks
from regard.layers.dropout import Dropout
from regard.layers.image_encoder import ImageEncoder, Images, Regions
from regard.layers.recurrent import Hidden, RecurrentDecoder, arrange, to_front
from regard.layers.words import SaysWords, Words

Tokens = Int[Tensor, "batch length"]
States = Float[Tensor, "batch length size"]


@dataclass(frozen=True)
class Config:
    """The sizes of the captioner."""

    vocabulary: int
    backbone: str = "small_cnn"  # or timm:NAME
    image_size: int = 128  # pixels of each side
    embedding_size: int = 512
    size: int = 512  # of the LSTM
    layers: int = 1
    dropout: float = 0.3
    tied: bool = False  # the output matrix is the embedding; needs size = embedding_size
    pad: int = 0


PRESETS: dict[str, dict[str, object]] = {
    "small": dict(embedding_size=256, size=256, dropout=0.4, tied=True),
    "paper": dict(embedding_size=512, size=512),
}


@dataclass(frozen=True)
class State:
    """What decoding carries from step to step."""

    hidden: Hidden


class ShowTell(SaysWords):
    """An LSTM that has seen the picture."""

    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        self.encoder = ImageEncoder(config.backbone, config.image_size)
        self.image = nn.Linear(self.encoder.size, config.embedding_size)  # W_i
        self.words = Words(
            config.vocabulary, config.embedding_size, config.size, tied=config.tied, dropout=config.dropout
        )
        self.decoder = RecurrentDecoder(
            "lstm", config.embedding_size, config.size, config.layers, dropout=config.dropout
        )
        self.dropout = Dropout(config.dropout)

    def forward(self, images: Images, target: Tokens) -> Float[Tensor, "batch length vocabulary"]:
        """Logits for the word after each target word."""
        return self.logits(self.decode(self.encoder(images), target))

    def decode(self, regions: Regions, target: Tokens) -> States:
        """Teacher-forced states of the LSTM."""
        words, mask, back = to_front(self.words(target), masks.real_tokens(target, self.config.pad))
        states, _ = self.decoder(words, self.start(regions).hidden, mask)
        return arrange(self.dropout(states), back)

    def start(self, regions: Regions) -> State:
        """The state after x_{-1}."""
        shown = self.dropout(self.image(regions.mean(1))).unsqueeze(1)
        zeros = tuple(shown.new_zeros(len(shown), self.config.size) for _ in range(self.config.layers))
        _, hidden = self.decoder(shown, Hidden(zeros, zeros))
        return State(hidden)

    def step(self, tokens: Int[Tensor, "batch"], state: State) -> tuple[Float[Tensor, "batch vocabulary"], State]:
        """Logits for the word after `tokens`, and the state in which that word is known."""
        states, hidden = self.decoder(self.words(tokens).unsqueeze(1), state.hidden)
        return self.logits(self.dropout(states[:, 0])), State(hidden)


FAMILIES = {"show-tell": ShowTell}
