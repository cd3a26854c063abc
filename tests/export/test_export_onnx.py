"""ONNX graphs of every family: the same numbers through onnxruntime, for any batch, length and past."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from export import tiny_runs
from regard.export import export_run

pytest.importorskip("onnx", reason="onnx is not installed")
onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

ENCODERS: dict[str, dict[str, Any]] = {
    "bert": {},
    "bert without next sentence": dict(next_sentence=False),
    "bert-classifier": {},
    "bert-tagger": {},
    "bert-embedder": dict(normalize=True),
    "bert-embedder by cls": dict(pooling="cls"),
}
TRANSLATORS: dict[str, dict[str, Any]] = {
    "post-norm": {},
    "pre-norm, learned positions": dict(pre_norm=True, positions="learned"),
}


def exported(tmp_path: Path) -> list[str]:
    """What the report of an export compares; it raises if anything differs."""
    report = export_run(tmp_path / "run", "onnx", tmp_path / "copy")
    assert report.holds
    return [finding.what for finding in report.findings]


def asked(path: Path, **inputs: Any) -> list[Any]:
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    assert {known.name for known in session.get_inputs()} == inputs.keys()
    return list(session.run(None, {name: np.asarray(value) for name, value in inputs.items()}))


@pytest.mark.parametrize("kind", ENCODERS)
def test_encoders_are_the_same_with_padding_on_either_side(kind: str, tmp_path: Path) -> None:
    tiny_runs.encoder(kind.split()[0], tmp_path / "run", **ENCODERS[kind])
    assert {what.rpartition(" ")[2] for what in exported(tmp_path)} == {"left", "right"}


def test_an_encoder_reads_one_token_of_one_row(tmp_path: Path) -> None:
    verbs = tiny_runs.encoder("bert-tagger", tmp_path / "run")
    exported(tmp_path)
    one = np.array([[verbs.tokenizer.start]])
    (logits,) = asked(
        tmp_path / "copy" / "model.onnx", input_ids=one, attention_mask=one * 0 + 1, token_type_ids=one * 0
    )
    np.testing.assert_allclose(logits, verbs.model(torch.from_numpy(one)).detach().numpy(), atol=1e-5)


@pytest.mark.parametrize("kind", TRANSLATORS)
def test_a_translator_says_the_same_token_by_token(kind: str, tmp_path: Path) -> None:
    tiny_runs.translator(tmp_path / "run", **TRANSLATORS[kind])
    assert exported(tmp_path) == ["logits", "greedy"]
    assert {path.name for path in (tmp_path / "copy").glob("*.onnx")} == {"encoder.onnx", "decoder.onnx"}


def test_marian_goes_with_its_sentence_pieces(tmp_path: Path) -> None:
    tiny_runs.marian(tmp_path / "run")
    assert exported(tmp_path) == ["logits", "greedy"]
    assert (tmp_path / "copy" / "source.spm").is_file()


@pytest.mark.parametrize(("kind", "tied"), [("bytes", True), ("char", True), ("bpe", True), ("bytes", False)])
def test_gpt2_continues_the_same_through_its_cache(kind: str, tied: bool, tmp_path: Path) -> None:
    tiny_runs.language_model(tmp_path / "run", kind, tied=tied)
    assert exported(tmp_path) == ["logits", "greedy"]


def test_a_text_in_pieces_is_the_text_at_once(tmp_path: Path) -> None:
    model = tiny_runs.language_model(tmp_path / "run").model
    exported(tmp_path)
    path, tokens = tmp_path / "copy" / "model.onnx", np.arange(14).reshape(2, 7)
    past = {
        f"past_key_values.{layer}.{part}": np.zeros((2, 4, 0, 8), np.float32)
        for layer in (0, 1)
        for part in ("key", "value")
    }
    pieces, read = [], 0
    for size in (3, 1, 3):
        piece = tokens[:, read : read + size]
        read += size
        logits, *present = asked(path, input_ids=piece, attention_mask=np.ones((2, read), np.int64), **past)
        pieces.append(logits)
        past = dict(zip(past, present, strict=True))
    whole = model(torch.from_numpy(tokens)).detach().numpy()
    np.testing.assert_allclose(np.concatenate(pieces, axis=1), whole, atol=1e-4)


@pytest.mark.parametrize("shape", [(8, 8), (12, 16)])
def test_pictures_are_seen_the_same_at_the_size_of_their_preprocessing(shape: tuple[int, int], tmp_path: Path) -> None:
    tiny_runs.pictures(tmp_path / "run", shape)
    assert exported(tmp_path) == ["logits"]
    assert (tmp_path / "copy" / "preprocessor_config.json").is_file()
    assert (tmp_path / "copy" / "labels.json").is_file()
