"""A GGUF file beside our model: read back by the `gguf` package into a model of ours, and run by llama.cpp.

Names and settings are held against the tables of the package, which llama.cpp keeps.
"""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer as Backend
from tokenizers import models, pre_tokenizers
from torch import Tensor

from regard import families
from regard.export import llama_cpp
from regard.export.gguf import FILE, NO_MERGE, OUTPUT, public_name
from regard.export.report import Finding, Report, compared, same
from regard.export.subject import NEW_TOKENS, TEXTS, Subject, batch

SETTINGS = ("block_count", "context_length", "embedding_length", "feed_forward_length", "attention.head_count")


def check(subject: Subject, folder: Path, quantization: str | None = None) -> Report:
    import gguf

    reader, quantised = gguf.GGUFReader(folder / FILE), quantization == "q8_0"
    with torch.device("meta"):  # nothing is drawn at random only to be overwritten
        copy = families.build_model("gpt2", subject.config).eval()
    copy.load_state_dict(tensors(subject, reader), assign=True)
    read = batch(subject.rows(subject.config.context))
    tokens = read.tokens.masked_fill(~read.mask, subject.pad)
    with torch.inference_mode():
        logits = compared("logits", read.real(subject.model(tokens)), read.real(copy(tokens)), quantised)
    found = names(subject, reader), settings(subject, reader), vocabulary(subject, reader)
    prompts = subject.prompts(max(1, subject.config.context - NEW_TOKENS))
    new = min(NEW_TOKENS, subject.config.context - max(map(len, prompts)))
    if new < 1:
        return Report((*found, logits, Finding("greedy", "the context is too short to write anything")))
    said = same("greedy", subject.greedy(prompts, new), subject.greedy(prompts, new, subject.going_on(copy)), quantised)
    asked = llama_cpp.findings(subject, folder / FILE, prompts, new, quantised)
    return Report((*found, logits, said, *asked.findings), asked.unchecked)


def tensors(subject: Subject, reader: Any) -> dict[str, Tensor]:
    from gguf import dequantize

    stored = {known.name: known for known in reader.tensors}
    found = {}
    for name, ours in subject.model.state_dict().items():
        known = stored[public_name(name)]
        found[name] = torch.from_numpy(np.array(dequantize(known.data, known.tensor_type))).reshape(ours.shape)
    return found


def names(subject: Subject, reader: Any) -> Finding:
    """All tensors that the architecture has, and no others."""
    from gguf import MODEL_ARCH, MODEL_TENSORS, TENSOR_NAMES

    allowed = {
        TENSOR_NAMES[kind].format(bid=number)
        for kind in MODEL_TENSORS[MODEL_ARCH.GPT2]
        for number in range(subject.config.layers)
    }
    found = {known.name for known in reader.tensors}
    strange = sorted(name for name in found if name.rpartition(".")[0] not in allowed)
    lacking = sorted({*map(public_name, subject.model.state_dict()), OUTPUT} - found)
    if strange or lacking:
        return Finding("tensors", f"unknown {strange[:4]}, missing {lacking[:4]}", False)
    return Finding("tensors", f"all {len(found)} have the names of the architecture gpt2")


def settings(subject: Subject, reader: Any) -> Finding:
    config = subject.config
    expected = (config.layers, config.context, config.size, config.hidden_size, config.heads)
    found = tuple(reader.get_field(f"gpt2.{name}").contents() for name in SETTINGS)
    return Finding("settings", f"{dict(zip(SETTINGS, found, strict=True))}", found == expected)


def vocabulary(subject: Subject, reader: Any) -> Finding:
    """Texts by a byte-level BPE made of the file's own tokens and merges; what ours cannot spell is left out."""
    tokens = reader.get_field("tokenizer.ggml.tokens").contents()
    merges = [tuple(pair.split(" ")) for pair in reader.get_field("tokenizer.ggml.merges").contents()]
    merges = [] if merges == [tuple(NO_MERGE.split(" "))] else merges
    backend = Backend(models.BPE({token: number for number, token in enumerate(tokens)}, merges))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    known = subject.tokenizer
    texts = [text for text in TEXTS if known.unknown < 0 or known.unknown not in known.encode(text)]
    found = [backend.encode(text).ids for text in texts]
    return same("tokens", [known.encode(text) for text in texts], found)
