"""`regard export`: a model for other engines."""

from typing import Annotated

import typer

from regard.cli.options import RunFolder


def export(
    run: RunFolder,
    to: Annotated[str, typer.Option("--to", metavar="FORMAT", help="hf, onnx, ctranslate2 or gguf.")],
    out: Annotated[str, typer.Option("--out", metavar="FOLDER", help="A new folder for the exported model.")],
    quantization: Annotated[
        str | None, typer.Option("--quantization", help="int8 of ctranslate2, q8_0 of gguf (default: float32).")
    ] = None,
) -> None:
    """Take a model to another engine. It is compared there with itself here; a copy that differs is not kept.

    regard export runs/sst2-bert --to hf --out sst2-hf

    regard export runs/demo --to ctranslate2 --quantization int8 --out demo-int8
    """
    from regard.export import export_run

    export_run(run, to, out, quantization=quantization, tell=print)
    print(f"wrote {out}")
