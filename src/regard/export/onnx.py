"""ONNX graphs, for onnxruntime and its many homes: batches and lengths of any size.

    model.onnx                      BERT with its head, ViT, and GPT-2 with its cache
    encoder.onnx, decoder.onnx      a Transformer: the source once, then the target token by token with a cache

torch has two exporters. The one used here traces: it takes a second where the newer one, which analyses, took most of a
minute for the smallest BERT, and it needs no further package. The modules in graphs.py hold no decision that depends on
the data, which tracing would freeze (and which the newer one refuses).
"""

import warnings
from pathlib import Path
from typing import Any

import torch

from regard.export import graphs
from regard.export.companions import companions, fill, labels_file
from regard.export.subject import Subject

FAMILIES = ("bert", "bert-classifier", "bert-tagger", "bert-embedder", "gpt2", "vit", "transformer")
EXTRA, PACKAGES, QUANTIZATIONS = "export", ("onnx", "onnxruntime"), ()
OPSET = 18


def write(subject: Subject, folder: Path, quantization: str | None = None) -> None:
    for name, graph in graphs_of(subject).items():
        trace(graph, folder / name)
    fill(folder, {"config.json": subject.loaded.config_json, **companions(subject), **labels_file(subject)})


def graphs_of(subject: Subject) -> dict[str, Any]:
    """The files of a model and the graphs in them."""
    model = subject.model
    if subject.family == "transformer":
        return {"encoder.onnx": graphs.Source(model), "decoder.onnx": graphs.Target(model)}
    if subject.family == "vit":
        return {"model.onnx": graphs.Pictures(model, subject.loaded.preprocessing.shape)}
    return {"model.onnx": graphs.Text(model) if subject.family == "gpt2" else graphs.Encoder(model, subject.family)}


def trace(graph: Any, path: Path) -> None:
    inputs, outputs = graph.inputs(), graph.outputs()
    with warnings.catch_warnings(), torch.inference_mode(False):
        warnings.simplefilter("ignore")  # what tracing freezes are sizes of the model, not of its inputs
        torch.onnx.export(
            graph.eval(),
            graph.example(),
            path,
            input_names=list(inputs),
            output_names=list(outputs),
            dynamic_axes=inputs | outputs,
            opset_version=OPSET,
            dynamo=False,
        )
