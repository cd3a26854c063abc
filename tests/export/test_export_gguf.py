"""GGUF files of GPT-2: names, settings, vocabulary and numbers, read back from the file."""

from pathlib import Path

import numpy as np
import pytest
import torch

import regard
from export import tiny_runs
from regard.errors import UsageError
from regard.export import export_run, llama_cpp
from regard.export.gguf import public_name
from regard.export.subject import Subject

gguf = pytest.importorskip("gguf", reason="gguf is not installed")


def contents(folder: Path, name: str) -> object:
    return gguf.GGUFReader(folder / "model.gguf").get_field(name).contents()


@pytest.mark.parametrize("tied", [True, False])
def test_the_file_holds_the_model_as_llama_cpp_knows_it(tied: bool, tmp_path: Path) -> None:
    verbs = tiny_runs.language_model(tmp_path / "run", tied=tied)
    report = export_run(tmp_path / "run", "gguf", tmp_path / "copy")
    whats = ["tensors", "settings", "tokens", "logits", "greedy"]
    assert [finding.what for finding in report.findings][:5] == whats
    assert contents(tmp_path / "copy", "general.architecture") == "gpt2"
    assert contents(tmp_path / "copy", "tokenizer.ggml.model") == "gpt2"
    assert contents(tmp_path / "copy", "tokenizer.ggml.pre") == "gpt-2"
    assert contents(tmp_path / "copy", "tokenizer.ggml.eos_token_id") == verbs.tokenizer.end
    assert contents(tmp_path / "copy", "gpt2.attention.layer_norm_epsilon") == pytest.approx(1e-5)
    stored = {known.name: known.data for known in gguf.GGUFReader(tmp_path / "copy" / "model.gguf").tensors}
    for name, tensor in verbs.model.state_dict().items():
        np.testing.assert_array_equal(stored[public_name(name)], tensor.numpy())
    np.testing.assert_array_equal(stored["output.weight"], verbs.model.output_weight.detach().numpy())


@pytest.mark.parametrize("quantization", ["f32", "q8_0"])
@pytest.mark.parametrize("kind", ["bytes", "char"])
def test_llama_cpp_says_what_we_say(kind: str, quantization: str, tmp_path: Path) -> None:
    pytest.importorskip("xllamacpp", reason="llama.cpp is not installed")
    tiny_runs.language_model(tmp_path / "run", kind, tiny_runs.PLAIN, hidden_size=64)
    report = export_run(tmp_path / "run", "gguf", tmp_path / "copy", quantization=quantization)
    assert [finding.what for finding in report.findings][-2:] == ["llama.cpp", "llama.cpp, greedy"]
    assert report.holds
    assert not report.unchecked


def test_another_models_file_is_found_out_by_llama_cpp(tmp_path: Path) -> None:
    pytest.importorskip("xllamacpp", reason="llama.cpp is not installed")
    tiny_runs.language_model(tmp_path / "run")
    export_run(tmp_path / "run", "gguf", tmp_path / "copy")
    subject = Subject("run", regard.load(tmp_path / "run"))
    with torch.no_grad():
        subject.model.embedding.weight.mul_(3)
    prompts = subject.prompts(8)
    assert not llama_cpp.findings(subject, tmp_path / "copy" / "model.gguf", prompts, 4, quantised=False).holds


def test_without_llama_cpp_the_report_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llama_cpp, "installed", lambda: False)
    tiny_runs.language_model(tmp_path / "run")
    assert "llama.cpp was not asked" in export_run(tmp_path / "run", "gguf", tmp_path / "copy").lines()[-1]


def test_eight_bits_are_smaller_and_nearly_the_same(tmp_path: Path) -> None:
    tiny_runs.language_model(tmp_path / "run", hidden_size=64)
    for quantization in ("f32", "q8_0"):
        assert export_run(tmp_path / "run", "gguf", tmp_path / quantization, quantization=quantization).holds
    kinds = {known.name: known.tensor_type.name for known in gguf.GGUFReader(tmp_path / "q8_0" / "model.gguf").tensors}
    assert kinds["blk.0.ffn_down.weight"] == kinds["token_embd.weight"] == "Q8_0"
    assert kinds["position_embd.weight"] == kinds["blk.0.attn_qkv.bias"] == "F32"
    small, large = ((tmp_path / name / "model.gguf").stat().st_size for name in ("q8_0", "f32"))
    assert small < 0.6 * large


def test_rows_that_are_no_whole_blocks_stay_whole(tmp_path: Path) -> None:
    tiny_runs.language_model(tmp_path / "run", hidden_size=40)
    assert export_run(tmp_path / "run", "gguf", tmp_path / "copy", quantization="q8_0").holds
    kinds = {known.name: known.tensor_type.name for known in gguf.GGUFReader(tmp_path / "copy" / "model.gguf").tensors}
    assert kinds["blk.0.ffn_down.weight"] == "F32"
    assert kinds["blk.0.ffn_up.weight"] == "Q8_0"


def test_characters_of_one_byte_are_a_byte_vocabulary_without_merges(tmp_path: Path) -> None:
    verbs = tiny_runs.language_model(tmp_path / "run", "char", tiny_runs.PLAIN)
    assert export_run(tmp_path / "run", "gguf", tmp_path / "copy").holds
    tokens = contents(tmp_path / "copy", "tokenizer.ggml.tokens")
    assert isinstance(tokens, list)
    assert tokens[verbs.tokenizer.encode(" ")[0]] == "Ġ"


@pytest.mark.parametrize("kind", ["char", "bpe"])
def test_another_vocabulary_is_refused(kind: str, tmp_path: Path) -> None:
    tiny_runs.language_model(tmp_path / "run", kind)
    with pytest.raises(UsageError, match=r"not of bytes.*data\.tokenizer=bytes"):
        export_run(tmp_path / "run", "gguf", tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def test_another_activation_is_refused(tmp_path: Path) -> None:
    tiny_runs.language_model(tmp_path / "run", activation="relu")
    with pytest.raises(UsageError, match="gelu_tanh only, not 'relu'"):
        export_run(tmp_path / "run", "gguf", tmp_path / "copy")
