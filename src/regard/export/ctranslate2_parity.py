"""An exported CTranslate2 model beside ours, through the engine: scores or states, and greedy texts."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.export.report import Finding, Report, compared, same
from regard.export.subject import NEW_TOKENS, Subject, batch

CPU: dict[str, Any] = {"device": "cpu", "inter_threads": 1, "intra_threads": 1}


def check(subject: Subject, folder: Path, quantization: str | None = None) -> Report:
    quantised = quantization == "int8"
    how = CPU | {"compute_type": "int8" if quantised else "float32"}
    with torch.inference_mode():
        if subject.family == "transformer":
            return Report(translated(subject, folder, how, quantised))
        if subject.family == "gpt2":
            return Report(continued(subject, folder, how, quantised))
        return Report(encoded(subject, folder, how, quantised))


def translated(subject: Subject, folder: Path, how: dict[str, Any], quantised: bool) -> tuple[Finding, ...]:
    import ctranslate2

    engine = ctranslate2.Translator(str(folder), **how)
    names, tokens = subject.vocabulary(), subject.tokenizer
    sources, targets = subject.pairs()
    spoken = [[names[token] for token in row[1:]] for row in targets]
    read, given = batch(sources, subject.pad), batch(targets, subject.pad)
    asked = [[names[token] for token in row[:-1]] for row in sources]  # the engine adds the ends itself
    scores = [np.array(known.log_probs) for known in engine.score_batch(asked, spoken)]
    log_p = subject.model(read.tokens, given.tokens).log_softmax(-1)
    ours = []
    for row, target in zip(log_p, targets, strict=True):
        said = torch.tensor([*target[1:], tokens.end])
        ours.append(row[: len(said)].gather(1, said[:, None]).squeeze(1).numpy())
    never = [[names[token]] for token in subject.never()]
    found = engine.translate_batch(
        asked, beam_size=1, max_decoding_length=NEW_TOKENS, suppress_sequences=never, replace_unknowns=False
    )
    mine = [[names[token] for token in row] for row in subject.greedy(sources, NEW_TOKENS)]
    return (
        compared("log probabilities", ours, scores, quantised),
        same("greedy", mine, [known.hypotheses[0] for known in found], quantised),
    )


def continued(subject: Subject, folder: Path, how: dict[str, Any], quantised: bool) -> tuple[Finding, ...]:
    import ctranslate2

    engine = ctranslate2.Generator(str(folder), **how)
    names = subject.vocabulary()
    rows = subject.rows(subject.config.context)
    read = batch(rows)
    ours = subject.model(read.tokens.masked_fill(~read.mask, subject.pad))
    logits = as_tensor(engine.forward_batch([[names[token] for token in row] for row in rows]))
    findings = [compared("logits", read.real(ours), read.real(logits), quantised)]
    prompts = subject.prompts(max(1, subject.config.context - NEW_TOKENS))
    new = min(NEW_TOKENS, subject.config.context - max(map(len, prompts)))
    if new > 0:
        never = [[names[token]] for token in subject.never()]
        found = engine.generate_batch(
            [[names[token] for token in row] for row in prompts],
            max_length=new,
            sampling_topk=1,
            include_prompt_in_result=False,
            suppress_sequences=never,
        )
        findings.append(
            same("greedy", subject.greedy(prompts, new), [known.sequences_ids[0] for known in found], quantised)
        )
    return tuple(findings)


def encoded(subject: Subject, folder: Path, how: dict[str, Any], quantised: bool) -> tuple[Finding, ...]:
    """Through the engine's states and our own head, as head.safetensors has it."""
    import ctranslate2

    engine = ctranslate2.Encoder(str(folder), **how)
    rows = subject.framed()
    read, model = batch(rows, subject.pad), subject.model
    tokens = read.tokens.masked_fill(~read.mask, subject.pad)
    segments = model.encoder.segments_of(tokens)
    found = engine.forward_batch(
        rows, token_type_ids=[row[: len(known)].tolist() for row, known in zip(segments, rows, strict=True)]
    )
    states, ours = as_tensor(found.last_hidden_state), model(tokens)
    if subject.family == "bert-classifier":
        return (compared("logits", [ours.numpy()], [model.label(as_tensor(found.pooler_output)).numpy()], quantised),)
    if subject.family == "bert-embedder":
        vectors = model.pool(states, read.mask)
        vectors = nn.functional.normalize(vectors, dim=-1) if subject.config.normalize else vectors
        return (compared("embeddings", [ours.numpy()], [vectors.numpy()], quantised),)
    theirs = model.logits(states) if subject.family == "bert" else model.label(states)
    return (compared("logits", read.real(ours), read.real(theirs), quantised),)


def as_tensor(view: Any) -> Tensor:
    return torch.from_numpy(np.array(view))
