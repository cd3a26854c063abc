"""Texts to vectors: 2,000 sentences of SST-2 by all-MiniLM-L6-v2 (real weights) and BERT-base (random ones).

Every side gets texts and gives vectors, its tokenizer included, sorted by length in batches of 32 as its users do (ours
and sentence-transformers sort by themselves), in a process of its own. Peers: Hugging Face transformers with mean
pooling, sentence-transformers, and ONNX Runtime over its own fused graph, whole and in its dynamic int8. Vectors of the
whole sides must agree within 1e-4 before anything is measured; of those in 8 bits the cosines with the whole ones are
told.
"""

import argparse
import shutil
import tempfile
from collections.abc import Callable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

import regard
from minilm_parity import packaged
from regard.data.named import data_folder, named_labelled
from speed.apart import Apart
from speed.rounds import ROUNDS, compare

BATCH, AGREE = 32, 1e-4
PROMISED = {
    ("regard", "transformers"): 1.3,
    ("regard", "sentence-transformers"): 1.3,
    ("regard", "onnxruntime"): 1.05,
    ("regard int8", "onnxruntime int8"): 1.0,
}
Vectors = NDArray[np.float32]
Encode = Callable[[list[str]], Vectors]
UNTYPED = {"DefaultTensorType": 1}  # what its own fused operators give has no type: float
TOKENIZER = ("tokenizer.json", "tokenizer_config.json", "vocab.txt", "special_tokens_map.json")


def measure(options: list[str]) -> dict[str, Any]:
    parser = argparse.ArgumentParser(prog="python -m benchmarks encode", description=__doc__)
    parser.add_argument("--data")
    parser.add_argument("--models", default="minilm,base")
    parser.add_argument("--sentences", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--quick", action="store_true", help="a tiny model in place of BERT-base")
    arguments = parser.parse_args(options)
    place = data_folder(arguments.data)
    known = chain(named_labelled("sst2", place, "test"), named_labelled("sst2", place, "valid"))
    texts = [each.text for each in islice(known, arguments.sentences)]
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in arguments.models.split(","):
            weights = packaged() if name == "minilm" else random_bert(Path(folder) / name, arguments.quick)
            found[name] = one_model(name, weights, Path(folder), texts, arguments.rounds)
    return {"sentences": len(texts), "models": found}


def random_bert(folder: Path, quick: bool) -> Path:
    """BERT-base in Hugging Face layout, with the tokenizer of MiniLM: the same vocabulary."""
    import transformers

    torch.manual_seed(0)
    sizes = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64) if quick else {}
    transformers.BertModel(transformers.BertConfig(**sizes)).save_pretrained(folder)
    for name in TOKENIZER:
        if (packaged() / name).exists():
            shutil.copy(packaged() / name, folder / name)
    return folder


def one_model(name: str, weights: Path, folder: Path, texts: list[str], rounds: int) -> dict[str, Any]:
    graph = folder / f"{name}.onnx"
    write_graphs(weights, graph)
    sides = {
        "regard": Apart(ours, weights, False),
        "regard int8": Apart(ours, weights, True),
        "transformers": Apart(hugging_face, weights),
        "sentence-transformers": Apart(sentence_transformers, weights),
        "onnxruntime": Apart(session, graph, weights),
        "onnxruntime int8": Apart(session, graph.with_suffix(".int8.onnx"), weights),
    }
    vectors = {side: unit(encode(texts[:100])) for side, encode in sides.items()}
    cosines = {side: float((found * vectors["regard"]).sum(1).min()) for side, found in vectors.items()}
    for side, found in vectors.items():
        if "int8" not in side and np.abs(found - vectors["regard"]).max() > AGREE:
            raise SystemExit(f"{name}: the vectors of {side} are others: nothing is measured")
    print(f"{name}: smallest cosines with ours " + ", ".join(f"{side} {cos:.4f}" for side, cos in cosines.items()))
    works = {side: (lambda encode=encode: encode(texts)) for side, encode in sides.items()}
    found = compare(works, PROMISED, rounds)
    for side in sides.values():
        side.end()
    return {"smallest_cosine": cosines, **found}


def ours(weights: Path, int8: bool) -> Encode:
    loaded = regard.load(weights, device="cpu", int8=int8)
    return lambda texts: loaded.embed(texts, pooling="mean", normalize=True)


def unit(vectors: Vectors) -> Vectors:
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def tokenized(weights: Path) -> Callable[[list[str]], Iterator[tuple[list[int], Any]]]:
    """Batches of similar length, with the places of their texts."""
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(weights)

    def batches(texts: list[str]) -> Iterator[tuple[list[int], Any]]:
        order = sorted(range(len(texts)), key=lambda item: -len(texts[item]))
        for first in range(0, len(order), BATCH):
            items = order[first : first + BATCH]
            asked = [texts[item] for item in items]
            yield items, tokenizer(asked, padding=True, truncation=True, max_length=256, return_tensors="pt")

    return batches


def mean(states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    kept = mask.unsqueeze(-1).float()
    return (states * kept).sum(1) / kept.sum(1)


def hugging_face(weights: Path) -> Encode:
    import transformers

    model, batches = transformers.BertModel.from_pretrained(weights).eval(), tokenized(weights)

    def encode(texts: list[str]) -> Vectors:
        found = np.zeros((len(texts), model.config.hidden_size), dtype=np.float32)
        with torch.inference_mode():
            for items, read in batches(texts):
                found[items] = mean(model(**read).last_hidden_state, read["attention_mask"]).numpy()
        return unit(found)

    return encode


def sentence_transformers(weights: Path) -> Encode:
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(weights), device="cpu")
    return lambda texts: model.encode(texts, batch_size=BATCH, show_progress_bar=False, normalize_embeddings=True)


def write_graphs(weights: Path, path: Path) -> None:
    """Their model traced, its attention and norms fused by ONNX Runtime's own tool; then its dynamic int8."""
    import transformers
    from onnxruntime.quantization import QuantType, quantize_dynamic
    from onnxruntime.transformers import optimizer

    model = transformers.BertModel.from_pretrained(weights, attn_implementation="eager").eval()
    example = tuple(torch.ones(2, 8, dtype=torch.int64) for _ in range(3))
    names = ["input_ids", "attention_mask", "token_type_ids"]
    plain = path.with_suffix(".plain.onnx")
    torch.onnx.export(
        States(model),
        example,
        plain,
        input_names=names,
        output_names=["states"],
        dynamic_axes={name: {0: "batch", 1: "length"} for name in (*names, "states")},
        opset_version=17,
        dynamo=False,
    )
    fused = optimizer.optimize_model(
        str(plain), "bert", num_heads=model.config.num_attention_heads, hidden_size=model.config.hidden_size
    )
    fused.save_model_to_file(str(path))
    small = path.with_suffix(".int8.onnx")
    quantize_dynamic(
        path, small, weight_type=QuantType.QInt8, reduce_range=True, extra_options=UNTYPED
    )  # AVX2 overflows without


class States(torch.nn.Module):
    """Their model with its inputs in a fixed order."""

    def __init__(self, model: Any):
        super().__init__()
        self.model = model

    def forward(self, tokens: torch.Tensor, mask: torch.Tensor, segments: torch.Tensor) -> torch.Tensor:
        read = self.model(input_ids=tokens, attention_mask=mask, token_type_ids=segments)
        return read.last_hidden_state


def session(path: Path, weights: Path) -> Encode:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    running = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    batches, wanted = tokenized(weights), {each.name for each in running.get_inputs()}

    def encode(texts: list[str]) -> Vectors:
        found: list[Any] = [None] * len(texts)
        for items, read in batches(texts):
            (states,) = running.run(["states"], {name: read[name].numpy() for name in wanted})
            for item, vector in zip(items, mean(torch.from_numpy(states), read["attention_mask"]).numpy(), strict=True):
                found[item] = vector
        return unit(np.stack(found))

    return encode
