"""GGUF files of GPT-2, which llama.cpp and all that is built on it run: model.gguf, whole (f32) or in 8 bits (q8_0).

Tensors and settings have the names that the `gguf` package lists for the architecture. The vocabulary is a byte-level
BPE. One of single characters is the same without merges, as long as each is one byte; what it does not know llama.cpp
leaves out, where ours says <unk>. An output matrix that is the embedding is written once more: older versions of
llama.cpp ask for it.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import models, pre_tokenizers

from regard.data.tokenizer import NO_TOKEN
from regard.errors import UsageError
from regard.export.subject import Subject

FAMILIES = ("gpt2",)
EXTRA, PACKAGES, QUANTIZATIONS = "gguf", ("gguf",), ("f32", "q8_0")
FILE = "model.gguf"
MODULES = {
    "embedding": "token_embd",
    "positions": "position_embd",
    "norm": "output_norm",
    "lm_head": "output",
    "self_attention.query_key_value": "attn_qkv",
    "self_attention.output": "attn_output",
    "around_self_attention.norm": "attn_norm",
    "feed_forward.expand": "ffn_up",
    "feed_forward.contract": "ffn_down",
    "around_feed_forward.norm": "ffn_norm",
}
OUTPUT = "output.weight"
NO_MERGE = "<s> </s>"  # llama.cpp wants a merge; neither half is ever a piece of a text, so this one never happens
ALWAYS_WHOLE = "position_embd.weight"  # llama.cpp reads rows of it as they are


def write(subject: Subject, folder: Path, quantization: str | None = None) -> None:
    import gguf

    check(subject)
    config, writer = subject.config, gguf.GGUFWriter(folder / FILE, "gpt2")
    kind = gguf.LlamaFileType.MOSTLY_Q8_0 if quantization == "q8_0" else gguf.LlamaFileType.ALL_F32
    writer.add_name(Path(subject.run).name)
    writer.add_file_type(kind)
    writer.add_block_count(config.layers)
    writer.add_context_length(config.context)
    writer.add_embedding_length(config.size)
    writer.add_feed_forward_length(config.hidden_size)
    writer.add_head_count(config.heads)
    writer.add_layer_norm_eps(config.epsilon)
    add_vocabulary(subject, writer)
    for name, values in tensors(subject):
        quantised = quantization == "q8_0" and is_quantised(name, values)
        stored = gguf.GGMLQuantizationType.Q8_0 if quantised else gguf.GGMLQuantizationType.F32
        writer.add_tensor(name, gguf.quantize(values, stored), raw_dtype=stored)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def check(subject: Subject) -> None:
    """What llama.cpp's GPT-2 does not have."""
    if subject.config.activation != "gelu_tanh":
        raise UsageError(
            f"{subject.run}: llama.cpp runs GPT-2 with the activation gelu_tanh only, not {subject.config.activation!r}"
        )
    spelling(subject)


def tensors(subject: Subject) -> Iterator[tuple[str, NDArray[np.float32]]]:
    """All tensors under their names there."""
    for name, tensor in subject.model.state_dict().items():
        yield public_name(name), tensor.float().numpy()
    if subject.config.tied:
        yield OUTPUT, subject.model.output_weight.detach().float().numpy()


def public_name(name: str) -> str:
    """`layers.3.feed_forward.expand.weight` is `blk.3.ffn_up.weight`."""
    module, _, end = name.rpartition(".")
    if not module.startswith("layers."):
        return f"{MODULES[module]}.{end}"
    _, number, inside = module.split(".", 2)
    return f"blk.{number}.{MODULES[inside]}.{end}"


def is_quantised(name: str, values: NDArray[np.float32]) -> bool:
    """Matrices whose rows are whole blocks of 32 numbers."""
    return values.ndim == 2 and values.shape[1] % 32 == 0 and name != ALWAYS_WHOLE


def add_vocabulary(subject: Subject, writer: Any) -> None:
    from gguf import TokenType

    tokens, merges = spelling(subject)
    known = subject.tokenizer
    special = {known.pad, known.start, known.end, known.mask} - {NO_TOKEN}
    kinds = [TokenType.CONTROL if number in special else TokenType.NORMAL for number in range(len(tokens))]
    if known.unknown != NO_TOKEN:
        kinds[known.unknown] = TokenType.UNKNOWN
        writer.add_unk_token_id(known.unknown)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    writer.add_token_merges(merges or [NO_MERGE])
    writer.add_bos_token_id(subject.start)
    writer.add_eos_token_id(known.end)
    if known.pad != NO_TOKEN:
        writer.add_pad_token_id(known.pad)
    writer.add_add_bos_token(False)


def spelling(subject: Subject) -> tuple[list[str], list[str]]:
    """The tokens, spelt in the alphabet of byte-level BPE, and its merges."""
    backend, vocabulary = subject.tokenizer.backend, subject.vocabulary()
    if isinstance(backend.model, models.BPE) and isinstance(backend.pre_tokenizer, pre_tokenizers.ByteLevel):
        merges = json.loads(backend.to_str())["model"]["merges"]
        return vocabulary, [pair if isinstance(pair, str) else " ".join(pair) for pair in merges]
    special = {subject.tokenizer.pad, subject.tokenizer.start, subject.tokenizer.end, subject.tokenizer.unknown}
    letters = [token for number, token in enumerate(vocabulary) if number not in special]
    strange = next((letter for letter in letters if len(letter.encode()) > 1), None)
    if strange is not None or not subject.tokenizer.keeps_blanks:
        raise UsageError(
            f"{subject.run}: its vocabulary is not of bytes (it has the token {strange or letters[0]!r}), "
            "and GGUF knows no other for GPT-2; train with data.tokenizer=bytes"
        )
    in_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    spelt = [
        token if number in special else in_bytes.pre_tokenize_str(token)[0][0]
        for number, token in enumerate(vocabulary)
    ]
    return spelt, []
