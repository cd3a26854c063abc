"""Exported graphs beside our model, through onnxruntime: other batches than they were traced with, padding on both
sides, and greedy texts through the cache."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.attention.masks import real_tokens
from regard.export.graphs import empty_cache
from regard.export.report import Finding, Report, compared, same
from regard.export.subject import NEW_TOKENS, Batch, Subject, batch


def check(subject: Subject, folder: Path, quantization: str | None = None) -> Report:
    with torch.inference_mode():
        if subject.family == "transformer":
            return Report(translated(subject, folder))
        model = Session(folder / "model.onnx")
        if subject.family == "vit":
            return Report((pictures(subject, model),))
        if subject.family == "gpt2":
            return Report(continued(subject, model))
        return Report(tuple(found for side in ("right", "left") for found in encoded(subject, model, side)))


class Session:
    """A graph, asked with torch's tensors."""

    def __init__(self, path: Path):
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3  # errors
        self.session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        self.names = [known.name for known in self.session.get_inputs()]

    def __call__(self, *inputs: Tensor) -> list[Tensor]:
        given = {name: tensor.numpy() for name, tensor in zip(self.names, inputs, strict=True)}
        return [torch.from_numpy(np.asarray(found)) for found in self.session.run(None, given)]


def turned(read: Batch, side: str) -> Batch:
    """The same rows with their padding on the left."""
    if side == "right":
        return read
    rows = [row[known].tolist() for row, known in zip(read.tokens, read.mask, strict=True)]
    back = batch([row[::-1] for row in rows])
    return Batch(back.tokens.flip(1), back.mask.flip(1))


def encoded(subject: Subject, model: Session, side: str) -> list[Finding]:
    read = turned(batch(subject.framed(), subject.pad), side)
    tokens = read.tokens.masked_fill(~read.mask, subject.pad)
    segments = subject.model.encoder.segments_of(tokens)
    found = model(read.tokens, read.mask.long(), segments)
    where = f"padded on the {side}"
    ours = subject.model(tokens)
    if subject.family in ("bert-classifier", "bert-embedder"):
        what = "logits" if subject.family == "bert-classifier" else "embeddings"
        return [compared(f"{what}, {where}", [ours.numpy()], [found[0].numpy()])]
    findings = [compared(f"logits, {where}", read.real(ours), read.real(found[0]))]
    if len(found) > 1:
        verdicts = subject.model.next_logits(*subject.model.encoder(tokens))
        findings.append(compared(f"next sentence, {where}", [verdicts.numpy()], [found[1].numpy()]))
    return findings


def pictures(subject: Subject, model: Session) -> Finding:
    images = subject.images()
    return compared("logits", [subject.model(images).numpy()], [model(images)[0].numpy()])


@dataclass(frozen=True)
class Cached:
    """What decoding with graphs carries: masks, keys and values."""

    mask: Tensor
    fixed: tuple[Tensor, ...]
    past: tuple[Tensor, ...]


class GraphTranslator:
    """encoder.onnx and decoder.onnx as a decoder (regard.decoding.protocol.Decoder)."""

    def __init__(self, folder: Path, config: Any):
        self.config = config
        self.encoder, self.decoder = Session(folder / "encoder.onnx"), Session(folder / "decoder.onnx")

    def start(self, source: Tensor) -> Cached:
        mask = real_tokens(source, self.config.pad).long()
        sources = tuple(self.encoder(source, mask))
        return Cached(mask, sources, empty_cache(self.config.decoder_layers, self.config, 0, len(source)))

    def step(self, tokens: Tensor, state: Cached) -> tuple[Tensor, Cached]:
        logits, *present = self.decoder(tokens[:, None], state.mask, *state.fixed, *state.past)
        return logits[:, -1], Cached(state.mask, state.fixed, tuple(present))

    def logits(self, source: Tensor, target: Tensor) -> Tensor:
        """After every token of the target, read at once."""
        state = self.start(source)
        return self.decoder(target, state.mask, *state.fixed, *state.past)[0]


def translated(subject: Subject, folder: Path) -> tuple[Finding, ...]:
    graph = GraphTranslator(folder, subject.config)
    sources, targets = subject.pairs()
    read, given = batch(sources, subject.pad), batch(targets, subject.pad)
    ours, found = subject.model(read.tokens, given.tokens), graph.logits(read.tokens, given.tokens)
    return (
        compared("logits", given.real(ours), given.real(found)),
        same("greedy", subject.greedy(sources, NEW_TOKENS), subject.greedy(sources, NEW_TOKENS, graph)),
    )


class GraphText:
    """model.onnx of a GPT-2 as our language models are read: `read` and `logits`."""

    def __init__(self, model: Session, config: Any):
        self.model, self.config, self.training = model, config, False

    def read(self, tokens: Tensor, carried: Cached | None = None) -> tuple[Tensor, Cached]:
        real = real_tokens(tokens, self.config.pad).long()
        past = empty_cache(self.config.layers, self.config, 0, len(tokens)) if carried is None else carried.past
        mask = real if carried is None else torch.cat([carried.mask, real], dim=1)
        logits, *present = self.model(tokens.clamp(min=0), mask, *past)
        return logits, Cached(mask, (), tuple(present))

    def logits(self, states: Tensor) -> Tensor:
        return states


def continued(subject: Subject, model: Session) -> tuple[Finding, ...]:
    graph: Any = GraphText(model, subject.config)
    read = batch(subject.rows(subject.config.context))
    tokens = read.tokens.masked_fill(~read.mask, subject.pad)
    findings = [compared("logits", read.real(subject.model(tokens)), read.real(graph.read(tokens)[0]))]
    prompts = subject.prompts(max(1, subject.config.context - NEW_TOKENS))
    new = subject.config.context - max(map(len, prompts))
    if new > 0:
        ours = subject.greedy(prompts, min(new, NEW_TOKENS))
        through = subject.greedy(prompts, min(new, NEW_TOKENS), subject.going_on(graph))
        findings.append(same("greedy", ours, through))
    return tuple(findings)
