"""Machines over vectors: the Neural Turing Machine, and the LSTM beside it."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from contract.subject import Padding, Subject
from regard.models import lstm, ntm

INPUTS, OUTPUTS = 4, 3


def examples(seed: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(length, INPUTS, generator=generator) for length in (5, 1, 3, 4)]


def outputs(model: nn.Module, rows: list[Tensor], padding: Padding) -> list[Tensor]:
    width = max(len(row) for row in rows) + padding.extra
    before = [width - len(row) if padding.side == "left" else 0 for row in rows]
    inputs = torch.stack(
        [F.pad(row, (0, 0, start, width - len(row) - start)) for row, start in zip(rows, before, strict=True)]
    )
    places = torch.arange(width)
    mask = torch.stack(
        [(places >= start) & (places < start + len(row)) for row, start in zip(rows, before, strict=True)]
    )
    said = model(inputs, mask)
    return [said[number][mask[number]] for number in range(len(rows))]


def under(model: nn.Module, mask: Tensor) -> Tensor:
    inputs = torch.randn(*mask.shape, INPUTS, generator=torch.Generator().manual_seed(0))
    return model(inputs, mask)


def subject(family: str, kind: str, config: object) -> Subject:
    return Subject(family, kind, config, "algorithm", examples, outputs, under)


SMALL = dict(input_size=INPUTS, output_size=OUTPUTS, controller_size=6)
SUBJECTS = [
    subject("ntm", "feed-forward controller", ntm.Config(**SMALL, cells=6, cell_size=5)),
    subject(
        "ntm",
        "LSTM controller, several heads",
        ntm.Config(**SMALL, controller="lstm", cells=7, cell_size=4, read_heads=2, write_heads=3, shift=2),
    ),
    subject("lstm", "two layers", lstm.Config(INPUTS, OUTPUTS, size=6, layers=2)),
]
