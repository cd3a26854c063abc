"""What papers report of their trainings, to be compared with the plan.

    efficiency = FLOPs of the whole training / (devices x peak x seconds)

is what must be assumed for the plan to say what the report says (the "model FLOPs utilisation"). A few percent are too
little for a Transformer that was trained with care; above 60 % something is counted wrongly.
"""

from dataclasses import dataclass

from regard.plan.devices import DEVICES


@dataclass(frozen=True)
class Phase:
    """Steps that all read equally much."""

    steps: int
    rows: int
    length: int
    source: int = 0


@dataclass(frozen=True)
class Report:
    """What a paper says of a training."""

    paper: str
    phases: tuple[Phase, ...]
    device: str
    devices: int
    days: float | None  # None: only the FLOPs are said
    precision: str
    assumed: str = ""  # what the paper does not say
    values: tuple[str, ...] = ()  # of the model, where the preset's are others
    flops: float | None = None  # where the paper says them itself
    predicted: float = 1.0  # the share of the tokens that are predicted

    def efficiency(self, flops: float) -> float | None:
        """The share of what the devices could have done in that time."""
        if self.days is None:
            return None
        return flops / (self.devices * DEVICES[self.device].peaks[self.precision] * self.days * 86_400)


_WMT = "sentences of 25 tokens"
_BERT = "TPU v2, as Cloud TPU pods were; rows are full"
_JFT = "chip-days on one chip: the paper gives core-days, two cores a chip"


def _pictures(epochs: int) -> tuple[Phase, ...]:
    """JFT-300M: 303 million pictures, 4096 at a time."""
    return (Phase(303_000_000 * epochs // 4096, 4096, 1),)


REPORTS: dict[str, Report] = {
    "transformer:base": Report(
        "Vaswani et al. 2017, section 5.2: 100,000 steps of 0.4 s, 12 hours",
        (Phase(100_000, 1_000, 25, 25),),
        "p100",
        8,
        0.5,
        "fp32",
        _WMT,
    ),
    "transformer:big": Report(
        "Vaswani et al. 2017, section 5.2: 300,000 steps of 1.0 s, 3.5 days",
        (Phase(300_000, 1_000, 25, 25),),
        "p100",
        8,
        3.5,
        "fp32",
        _WMT,
    ),
    "bert:base": Report(
        "Devlin et al. 2019, appendix A.2: 16 TPU chips, 4 days",
        (Phase(900_000, 256, 128), Phase(100_000, 256, 512)),
        "tpu-v2",
        16,
        4,
        "bf16",
        _BERT,
        predicted=0.15,
    ),
    "bert:large": Report(
        "Devlin et al. 2019, appendix A.2: 64 TPU chips, 4 days",
        (Phase(900_000, 256, 128), Phase(100_000, 256, 512)),
        "tpu-v2",
        64,
        4,
        "bf16",
        _BERT,
        predicted=0.15,
    ),
    "vit:b16": Report(
        "Dosovitskiy et al. 2021, table 6: 7 epochs of JFT-300M",
        _pictures(7),
        "tpu-v3",
        1,
        None,
        "bf16",
        values=("model.labels=18291",),
        flops=224e18,
    ),
    "vit:l16": Report(
        "Dosovitskiy et al. 2021, tables 2 and 6: 7 epochs of JFT-300M, 680 TPUv3-core-days",
        _pictures(7),
        "tpu-v3",
        1,
        340,
        "bf16",
        _JFT,
        ("model.labels=18291",),
        783e18,
    ),
    "vit:h14": Report(
        "Dosovitskiy et al. 2021, tables 2 and 6: 14 epochs of JFT-300M, 2,500 TPUv3-core-days",
        _pictures(14),
        "tpu-v3",
        1,
        1_250,
        "bf16",
        _JFT,
        ("model.labels=18291",),
        4262e18,
    ),
    "bahdanau:paper": Report(
        "Bahdanau et al. 2015, table 2: RNNsearch-50, 2.88e5 updates of 80 sentences, 111 hours",
        (Phase(288_000, 80, 25, 25),),
        "k6000",
        1,
        111 / 24,
        "fp32",
        _WMT,
    ),
    "luong:paper": Report(
        "Luong et al. 2015, section 4.1: 1,000 target words a second on one Tesla K40",
        (Phase(270_000, 128, 25, 25),),  # a day at this rate is 86.4 million words
        "k40",
        1,
        10.0,
        "fp32",
        _WMT,
    ),
}
