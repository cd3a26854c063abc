"""CTranslate2 models: the same scores and texts through the engine, and nearly the same in 8 bits."""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from export import tiny_runs
from regard.export import export_run
from regard.export.ctranslate2 import language_model
from regard.export.subject import Subject

pytest.importorskip("ctranslate2", reason="ctranslate2 is not installed")

TRANSLATORS: dict[str, dict[str, Any]] = {
    "post-norm": {},
    "pre-norm": dict(pre_norm=True, activation="gelu"),
    "learned positions, not scaled": dict(positions="learned", scaled=False, output_bias=True),
}


def exported(tmp_path: Path, quantization: str | None = None) -> list[str]:
    report = export_run(tmp_path / "run", "ctranslate2", tmp_path / "copy", quantization=quantization)
    assert report.holds
    return [finding.what for finding in report.findings]


@pytest.mark.parametrize("kind", TRANSLATORS)
def test_a_translator_scores_and_says_the_same(kind: str, tmp_path: Path) -> None:
    tiny_runs.translator(tmp_path / "run", **TRANSLATORS[kind])
    assert exported(tmp_path) == ["log probabilities", "greedy"]


def test_marian_begins_with_padding_there_too(tmp_path: Path) -> None:
    tiny_runs.marian(tmp_path / "run")
    assert exported(tmp_path) == ["log probabilities", "greedy"]


@pytest.mark.parametrize(("kind", "tied"), [("bytes", True), ("char", True), ("bytes", False)])
def test_gpt2_says_the_same(kind: str, tied: bool, tmp_path: Path) -> None:
    tiny_runs.language_model(tmp_path / "run", kind, tied=tied)
    assert exported(tmp_path) == ["logits", "greedy"]


@pytest.mark.parametrize("family", ["bert", "bert-classifier", "bert-tagger", "bert-embedder"])
def test_encoders_are_the_same_with_their_heads(family: str, tmp_path: Path) -> None:
    verbs = tiny_runs.encoder(family, tmp_path / "run")
    exported(tmp_path)
    if family == "bert-embedder":
        assert not (tmp_path / "copy" / "head.safetensors").exists()
        return
    head = load_file(tmp_path / "copy" / "head.safetensors")
    name = "words.weight" if family == "bert" else "label.weight"
    expected = verbs.model.encoder.embedding.weight if family == "bert" else verbs.model.label.weight
    assert torch.equal(head[name], expected)


def test_eight_bits_are_smaller_nearly_the_same_and_leave_our_weights_alone(tmp_path: Path) -> None:
    verbs = tiny_runs.language_model(tmp_path / "run")
    before = {name: tensor.clone() for name, tensor in verbs.model.state_dict().items()}
    spec = language_model(Subject("run", verbs))
    spec.validate(), spec.optimize(quantization="int8")
    assert all(torch.equal(tensor, before[name]) for name, tensor in verbs.model.state_dict().items())
    assert exported(tmp_path, "int8") == ["logits", "greedy"]
    whole = export_run(tmp_path / "run", "ctranslate2", tmp_path / "whole")
    assert whole.holds
    small, large = ((tmp_path / name / "model.bin").stat().st_size for name in ("copy", "whole"))
    assert small < 0.5 * large
