"""What is wrong with a public checkpoint is said in one line, and nothing in it is ever run."""

import json
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny_checkpoints import bert_folder, change, gpt2_folder, vit_folder, write_json

import regard
from regard.data.tokenizer import Tokenizer
from regard.errors import RegardError
from regard.public.folder import read_weights

ALPHABET = "abcdefghijklmnopqrstuvwxyz 0123456789"
WORDS = "bert.embeddings.word_embeddings.weight"
QUERY, KEY = (f"bert.encoder.layer.0.attention.self.{part}.weight" for part in ("query", "key"))


def tensors(folder: Path, **changes: Any) -> None:
    """Write the weights anew, some of them changed, left out (None) or added."""
    known = load_file(folder / "model.safetensors")
    known |= {name: tensor for name, tensor in changes.items() if tensor is not None}
    gone = {name for name, tensor in changes.items() if tensor is None}
    save_file({name: tensor for name, tensor in known.items() if name not in gone}, folder / "model.safetensors")


def shards(folder: Path, names: dict[str, str]) -> None:
    (folder / "model.safetensors").rename(folder / "model-00001-of-00002.safetensors")
    write_json(folder / "model.safetensors.index.json", {"weight_map": names})


def cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def old_file(folder: Path, content: bytes) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(content)


def config(**values: Any) -> Callable[[Path], None]:
    return lambda folder: change(folder / "config.json", **values)


FAULTS: dict[str, tuple[Callable[[Path], Any], str]] = {
    "another architecture": (
        config(architectures=["BertForQuestionAnswering"]),
        r"config.json: the architecture 'BertForQuestionAnswering' is not known here; known are BertForPreTraining, ",
    ),
    "another model": (
        config(model_type="llama"),
        r"config.json: the model_type 'llama' is not known here; known are bert, gpt2, ",
    ),
    "no model at all": (lambda f: write_json(f / "config.json", {}), "config.json: names no model_type; known are"),
    "a broken config": (lambda f: (f / "config.json").write_text('{"model_type": '), "config.json: damaged"),
    "a config without sizes": (
        lambda f: write_json(f / "config.json", {"model_type": "bert"}),
        "config.json: lacks the setting 'vocab_size'",
    ),
    "a size that is no number": (
        config(hidden_size="wide"),
        r"config.json(.size is 'wide' but must be|: cannot be understood .*'wide')",
    ),
    "labels that are no table": (config(id2label=["a", "b", "c"]), "config.json: cannot be understood"),
    "heads that do not divide": (config(num_attention_heads=3), "a size of 8 cannot be split over 3 heads"),
    "a setting we do not know": (config(hidden_act="mish"), "hidden_act='mish' is not known here"),
    "regression": (config(id2label={"0": "score"}), "its head is for regression; here a text has one label of several"),
    "several labels at once": (config(problem_type="multi_label_classification"), "is for multi_label_classification"),
    "a missing tensor": (
        lambda f: tensors(f, **{WORDS: None}),
        rf"does not fit this model: it lacks {WORDS}$",
    ),
    "an extra tensor": (
        lambda f: tensors(f, adapter=torch.zeros(2)),
        "does not fit this model: it has no place for adapter$",
    ),
    "missing and extra": (
        lambda f: tensors(f, **{WORDS: None, "adapter": torch.zeros(2)}),
        f"it lacks {WORDS} and has no place for adapter$",
    ),
    "many extra tensors": (
        lambda f: tensors(f, **{f"extra.{n}": torch.zeros(1) for n in range(9)}),
        r"extra.0, extra.1, extra.2, extra.3, extra.4, extra.5 and 3 more$",
    ),
    "a misshapen tensor": (
        lambda f: tensors(f, **{"classifier.weight": torch.zeros(4, 8)}),
        r"does not fit this model: classifier.weight \(4, 8\) instead of \(3, 8\)$",
    ),
    "misshapen parts whose sum would fit": (
        lambda f: tensors(f, **{QUERY: torch.zeros(4, 8), KEY: torch.zeros(12, 8)}),
        r"key.weight \(12, 8\) instead of \(8, 8\), .*query.weight \(4, 8\) instead of \(8, 8\)$",
    ),
    "a tensor twice": (
        lambda f: tensors(f, **{"embeddings.word_embeddings.weight": torch.zeros(1)}),
        f"has {WORDS} twice, under two names",
    ),
    "weights cut short": (lambda f: cut_short(f / "model.safetensors"), "model.safetensors: damaged or cut short"),
    "no weights": (lambda f: (f / "model.safetensors").unlink(), "holds no weights: neither model.safetensors nor"),
    "a missing shard": (
        lambda f: shards(f, {WORDS: "model-00001-of-00002.safetensors", "x": "model-00002-of-00002.safetensors"}),
        "1 of 2 shards are missing: model-00002-of-00002.safetensors$",
    ),
    "an index that points outside": (
        lambda f: shards(f, {WORDS: "../secrets.safetensors"}),
        "index.json: '../secrets.safetensors' is not a file of this folder",
    ),
    "an index without a map": (lambda f: shards(f, []), "index.json: has no weight_map"),  # type: ignore[arg-type]
    "an old file cut short": (
        lambda f: old_file(f, b"PK\x03\x04 and then nothing"),
        "pytorch_model.bin: damaged or cut short",
    ),
    "an old file of something else": (
        lambda f: ((f / "model.safetensors").unlink(), torch.save([1, 2], f / "pytorch_model.bin")),
        "pytorch_model.bin: is not a table of tensors",
    ),
    "no tokenizer": (lambda f: (f / "tokenizer.json").unlink(), "holds no tokenizer: neither tokenizer.json nor"),
    "a broken tokenizer": (lambda f: (f / "tokenizer.json").write_text("{"), "its tokenizer cannot be read"),
    "a tokenizer that does not fit": (
        lambda f: (f / "tokenizer.json").write_text(
            Tokenizer.train("bert", ["abcdefghijklmnopqrstuvwxyz 0123456789"] * 2, 200).to_json()
        ),
        r"its tokenizer has \d+ tokens but the model's embedding \d+ rows; they do not belong together",
    ),
    "a tokenizer of another custom": (
        lambda f: (f / "tokenizer.json").write_text(
            json.dumps(
                {"version": "1.0", "added_tokens": [], "model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}}
            )
        ),
        r"the tokenizer has no start token, which this model needs: add one of <s>, \[CLS\]",
    ),
    "modules that are no list": (
        lambda f: (change(f / "config.json", architectures=["BertModel"]), write_json(f / "modules.json", 3)),
        "modules.json: cannot be understood",
    ),
    "a pooling outside the folder": (
        lambda f: (
            change(f / "config.json", architectures=["BertModel"]),
            write_json(f / "modules.json", [{"type": "a.Pooling", "path": "../../etc"}]),
        ),
        "'../../etc' is not a folder of this checkpoint",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_one_line_that_names_it(fault: str, tmp_path: Path) -> None:
    bert_folder(tmp_path / "model", "bert-classifier")
    spoil, told = FAULTS[fault]
    spoil(tmp_path / "model")
    with pytest.raises(RegardError, match=told) as raised:
        regard.load(tmp_path / "model", device="cpu")
    assert "\n" not in str(raised.value)


def test_faults_of_the_other_models_are_told_too(tmp_path: Path) -> None:
    gpt2_folder(tmp_path / "gpt2")
    tensors(tmp_path / "gpt2", **{"transformer.h.2.attn.c_attn.bias": torch.zeros(24)})
    with pytest.raises(RegardError, match=r"has no place for transformer.h.2.attn.c_attn.bias$"):
        regard.load(tmp_path / "gpt2")
    vit_folder(tmp_path / "vit")
    (tmp_path / "vit" / "preprocessor_config.json").unlink()
    with pytest.raises(RegardError, match=r"preprocessor_config.json: no such file"):
        regard.load(tmp_path / "vit")


class Evil:
    """Makes a folder when it is unpickled by a reader that trusts it."""

    def __init__(self, path: Path):
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("form", ["zip", "legacy", "bare"])
def test_a_pickle_that_would_run_code_is_refused_and_does_not_run(form: str, tmp_path: Path) -> None:
    bert_folder(tmp_path / "model")
    (tmp_path / "model" / "model.safetensors").unlink()
    done, file = tmp_path / "done", tmp_path / "model" / "pytorch_model.bin"
    content = {"bert.embeddings.word_embeddings.weight": torch.zeros(2), "evil": Evil(done)}
    if form == "bare":
        file.write_bytes(pickle.dumps(content))
    else:
        torch.save(content, file, _use_new_zipfile_serialization=form == "zip")
    with pytest.raises(RegardError, match=r"holds more than tensors, perhaps code, and was not read") as raised:
        regard.load(tmp_path / "model")
    assert "\n" not in str(raised.value)
    assert not done.exists()
    if form == "bare":  # a reader that trusts the file does run it
        pickle.loads(file.read_bytes())
    else:
        torch.load(file, weights_only=False)
    assert done.exists()


def test_a_shard_that_holds_what_another_holds_is_refused(tmp_path: Path) -> None:
    bert_folder(tmp_path)
    known = load_file(tmp_path / "model.safetensors")
    names = [f"model-0000{n}-of-00002.safetensors" for n in (1, 2)]
    for name in names:
        save_file(known, tmp_path / name)
    (tmp_path / "model.safetensors").unlink()
    places = dict(zip(list(known)[:2], names, strict=True))
    write_json(tmp_path / "model.safetensors.index.json", {"weight_map": places})
    with pytest.raises(RegardError, match="stands in another file"):
        read_weights(tmp_path)
