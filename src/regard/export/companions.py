"""The small files beside the weights: tokenizer, labels, pictures' preprocessing, generation, as Hugging Face has them.

A tokenizer called on a text must give what our verbs tell the model, special tokens included. They are added by a
template: [CLS] and [SEP] for BERT, the end after a source, and the end of the line before a line. Texts that spell a
special token are the one difference: theirs take it for the token, as their users expect of [MASK], while ours read it
as text.
"""

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import save_file
from tokenizers import Tokenizer as Backend
from tokenizers.processors import TemplateProcessing
from torch import Tensor

from regard.data.marian_tokenizer import MarianTokenizer
from regard.data.tokenizer import NO_TOKEN
from regard.export.subject import Subject
from regard.tasks.language_verbs import NEW_TOKENS

ROLES = ("pad", "start", "end", "unknown", "mask")
BERT_NAMES = ("pad_token", "cls_token", "sep_token", "unk_token", "mask_token")  # what each role is called there
OTHER_NAMES = ("pad_token", "bos_token", "eos_token", "unk_token", "mask_token")
LABELLED = ("vit", "bert-classifier", "bert-tagger")


def fill(folder: Path, files: Mapping[str, str | bytes]) -> None:
    for name, content in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(content.encode("utf-8") if isinstance(content, str) else content)


def save_tensors(tensors: dict[str, Tensor], path: Path) -> None:
    """With the note that `transformers` looks for."""
    try:
        save_file(tensors, path, metadata={"format": "pt"})
    except SafetensorError as error:  # it hides the operating system's reason in its own text
        raise OSError(" ".join(str(error).split())) from error


def companions(subject: Subject) -> dict[str, str | bytes]:
    """What a program needs beside the model itself to use it as our verbs do."""
    if subject.family == "vit":
        files: dict[str, str | bytes] = {"preprocessor_config.json": subject.loaded.preprocessing.to_json()}
    elif isinstance(subject.tokenizer, MarianTokenizer):
        files = marian_files(subject)
    else:
        files = tokenizer_files(subject)
    if hasattr(subject.loaded, "decoding"):
        files["generation_config.json"] = told_json(generation(subject))
    return files


def labels_file(subject: Subject) -> dict[str, str]:
    """For formats whose own settings have no place for them."""
    return {"labels.json": told_json({"labels": subject.labels})} if subject.family in LABELLED else {}


def told_json(value: Any) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False)


def tokenizer_files(subject: Subject) -> dict[str, str | bytes]:
    specials = special_tokens(subject)
    config: dict[str, Any] = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": longest(subject),
        "clean_up_tokenization_spaces": False,
        "model_input_names": ["input_ids", *(["token_type_ids"] if is_bert(subject) else []), "attention_mask"],
        **specials,
    }
    return {
        "tokenizer.json": tokenizer_json(subject),
        "tokenizer_config.json": told_json(config),
        "special_tokens_map.json": told_json(specials),
    }


def tokenizer_json(subject: Subject) -> str:
    """With the template that adds the special tokens."""
    tokens = subject.tokenizer
    backend = Backend.from_str(tokens.to_json())
    start, end = tokens.pieces([subject.start, tokens.end])
    numbers = [(start, subject.start), (end, tokens.end)]
    if is_bert(subject):
        one = f"{start} $A {end}"
        backend.post_processor = TemplateProcessing(single=one, pair=f"{one} $B:1 {end}:1", special_tokens=numbers)
    elif subject.family == "transformer":
        backend.post_processor = TemplateProcessing(single=f"$A {end}", special_tokens=numbers[1:])
    elif not tokens.keeps_blanks:
        backend.post_processor = TemplateProcessing(single=f"{end} $A", special_tokens=numbers[1:])
    return backend.to_str(pretty=False)


def marian_files(subject: Subject) -> dict[str, str | bytes]:
    """As the public Marians have them: two SentencePiece models and a vocabulary."""
    values = json.loads(subject.tokenizer.to_json())
    config = {"tokenizer_class": "MarianTokenizer", "model_max_length": longest(subject), "separate_vocabs": False}
    return {
        "source.spm": base64.b64decode(values["source"]),
        "target.spm": base64.b64decode(values["target"]),
        "vocab.json": told_json(values["vocabulary"]),
        "tokenizer_config.json": told_json(config),
    }


def special_tokens(subject: Subject) -> dict[str, str]:
    """`pad_token` and the like, as far as the vocabulary has them."""
    return {name: subject.tokenizer.pieces([number])[0] for name, number in special_numbers(subject).items()}


def special_numbers(subject: Subject) -> dict[str, int]:
    names = BERT_NAMES if is_bert(subject) else OTHER_NAMES
    numbers = {name: int(getattr(subject.tokenizer, role)) for name, role in zip(names, ROLES, strict=True)}
    return {name: number for name, number in numbers.items() if number != NO_TOKEN}


def told(subject: Subject, text: str) -> list[int]:
    """What our own verbs make of a text."""
    tokens, row = subject.tokenizer, list(subject.tokenizer.encode(text))
    if is_bert(subject):
        return [tokens.start, *row, tokens.end]
    if subject.family == "transformer":
        return [*row, tokens.end]
    return row if tokens.keeps_blanks else [tokens.end, *row]


def longest(subject: Subject) -> int:
    """The most tokens the model reads at once."""
    reading = getattr(subject.loaded, "reading", None)
    room = getattr(subject.config, "context", None) or subject.config.max_length
    return int(room if reading is None else min(room, reading.max_length))


def is_bert(subject: Subject) -> bool:
    return subject.family.startswith("bert")


def generation(subject: Subject) -> dict[str, Any]:
    """How texts are made, in their words; tokens that no text contains are forbidden there too."""
    decoding, numbers = subject.loaded.decoding, special_numbers(subject)
    wanted = ("pad_token", "bos_token", "eos_token")
    values: dict[str, Any] = {f"{name}_id": numbers[name] for name in wanted if name in numbers}
    values |= {"num_beams": decoding.num_beams, "do_sample": decoding.do_sample}
    if decoding.num_beams > 1:
        values["length_penalty"] = decoding.length_penalty
    if decoding.do_sample:
        values |= {"temperature": decoding.temperature, "top_k": decoding.top_k or 0, "top_p": decoding.top_p or 1.0}
    if decoding.renormalize_logits:
        values["renormalize_logits"] = True
    if never := subject.never():
        values["bad_words_ids"] = [[token] for token in never]
    new = decoding.max_new_tokens
    if subject.family == "transformer":
        values["decoder_start_token_id"] = subject.tokenizer.start
        return values | ({"max_length": subject.config.max_length} if new is None else {"max_new_tokens": new})
    return values | {"max_new_tokens": new or NEW_TOKENS}
