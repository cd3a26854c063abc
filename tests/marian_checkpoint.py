"""A small Marian checkpoint in Hugging Face layout: SentencePiece models learnt on the spot, random weights."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
import torch

SOURCES = [
    "the old house stands near the river .",
    "a small dog runs to the old house",
    "she sings, he (or they) play",
    "what's this? it's 5 % of 12 rivers !",
]
TARGETS = [
    "das alte haus steht am fluss .",
    "ein kleiner hund rennt zum alten haus",
    "sie singt, er (oder sie) spielen",
    "was ist das? es sind 5 % von 12 flüssen !",
]
LANGUAGES = [">>deu<<", ">>nld<<"]


def sentence_piece(texts: list[str], pieces: int = 60) -> bytes:
    sentencepiece = pytest.importorskip("sentencepiece")
    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts * 5),
        model_writer=written,
        vocab_size=pieces,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    return written.getvalue()


def tokenizer_files(folder: Path) -> dict[str, int]:
    """source.spm, target.spm, vocab.json, tokenizer_config.json, as the public ones are; returns the vocabulary."""
    sentencepiece = pytest.importorskip("sentencepiece")
    folder.mkdir(parents=True, exist_ok=True)
    pieces: dict[str, None] = {}
    for side, texts in (("source", SOURCES), ("target", TARGETS)):
        model = sentence_piece(texts)
        (folder / f"{side}.spm").write_bytes(model)
        known = sentencepiece.SentencePieceProcessor(model_proto=model)
        pieces |= dict.fromkeys(known.id_to_piece(number) for number in range(3, len(known)))
    names = ["</s>", "<unk>", *LANGUAGES, *pieces, "<pad>"]
    vocabulary = {piece: number for number, piece in enumerate(names)}
    (folder / "vocab.json").write_text(json.dumps(vocabulary, ensure_ascii=False), "utf-8")
    options = {"source_lang": "en", "target_lang": "de", "tokenizer_class": "MarianTokenizer"}
    (folder / "tokenizer_config.json").write_text(json.dumps(options), "utf-8")
    return vocabulary


def marian_folder(folder: Path, **changes: Any) -> Any:
    """Writes the checkpoint and returns the model of `transformers` that it holds."""
    transformers = pytest.importorskip("transformers")
    vocabulary = tokenizer_files(folder)
    pad = vocabulary["<pad>"]
    config = transformers.MarianConfig(
        **dict(
            vocab_size=len(vocabulary),
            d_model=16,
            encoder_layers=2,
            decoder_layers=2,
            encoder_ffn_dim=24,
            decoder_ffn_dim=24,
            encoder_attention_heads=4,
            decoder_attention_heads=4,
            activation_function="swish",
            scale_embedding=True,
            max_position_embeddings=64,
            pad_token_id=pad,
            decoder_start_token_id=pad,
            eos_token_id=0,
            forced_eos_token_id=0,
        )
        | changes
    )
    torch.manual_seed(0)
    model = transformers.MarianMTModel(config).eval()
    for name, parameter in model.named_parameters():
        if "embed_positions" not in name and "layer_norm" not in name:
            torch.nn.init.normal_(parameter, std=0.4)
    model.final_logits_bias.normal_()
    model.generation_config = transformers.GenerationConfig(
        num_beams=3,
        max_length=12,
        bad_words_ids=[[pad]],
        renormalize_logits=True,
        forced_eos_token_id=0,
        eos_token_id=0,
        pad_token_id=pad,
        decoder_start_token_id=pad,
    )
    model.save_pretrained(folder)
    return model
