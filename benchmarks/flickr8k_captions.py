"""Flickr8k captions: Show and Tell, Show, Attend and Tell (soft, hard), a Transformer, and two trivial baselines.

    python benchmarks/flickr8k_captions.py [--data DIR] [--out runs] [--only NAME ...] [--table] [--page FILE.html]

The encoder is trained once (`flickr8k-regions` in --out), then every captioner over what it sees; a run that is there
is used, or resumed if it is not finished. The test split is scored once per model, beam 5. The baselines are the best
constant caption, chosen on the training split, and a caption of the training picture that the encoder finds most
alike. --table only prints the table of the result file; --page only draws what the words of 30 test captions looked at,
pictures drawn by chance, by the run of soft attention (or the one of --only).
"""

import argparse
import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

import regard
from regard.data.captions import CaptionedImage, readable_pictures
from regard.data.named import data_folder, named_captions
from regard.recipes import runner
from regard.tasks.caption import encoding
from regard.tasks.caption_baselines import best_constant, neighbour_captions
from regard.tasks.caption_scores import caption_scores
from regard.views.look import Look, save_page
from result_files import FOLDER, write_result
from trainings import trained

NAME = "flickr8k-captions"
ENCODER = "flickr8k-regions"
BASELINES = ("constant caption", "nearest neighbour")
RUNS = {
    "Show and Tell": "flickr8k-show-tell",
    "Show, Attend and Tell, soft": "flickr8k-attend-soft",
    "Show, Attend and Tell, hard": "flickr8k-attend-hard",
    "Transformer over regions": "flickr8k-transformer",
}
AT_ONCE = 64
SHOWN = 30


def finished_run(recipe: str, out: Path, data: str | None, overrides: list[str]) -> tuple[Any, Any]:
    """The finished run of a recipe, and how it ended."""
    folder = out / recipe
    run, outcome = trained(folder, recipe, overrides, data)
    print(f"{recipe}: {outcome.progress.step} steps in {outcome.progress.seconds:.0f} s", flush=True)
    return run, outcome


def pictures(split: str, data: str | None) -> list[CaptionedImage]:
    return list(named_captions("flickr8k", data_folder(data), split))


def looks(finder: Any, known: list[CaptionedImage]) -> NDArray[np.float32]:
    """The mean region of every picture."""
    encode, rows, waiting = encoding(finder.model, finder.preprocessing), [], []
    for _, pixels in readable_pictures(known, finder.preprocessing):
        waiting.append(pixels)
        if len(waiting) == AT_ONCE:
            rows.append(encode(np.stack(waiting)).mean(1).cpu().numpy())
            waiting.clear()
    if waiting:
        rows.append(encode(np.stack(waiting)).mean(1).cpu().numpy())
    found = np.concatenate(rows)
    if len(found) != len(known):
        raise SystemExit(f"{len(known) - len(found)} pictures cannot be read: fetch flickr8k again")
    return found


def draw_page(name: str, out: Path, data: str | None, path: str) -> None:
    """Test pictures drawn by chance with their captions, word by word."""
    captioner, known = regard.load(out / RUNS[name]), pictures("test", data)
    chosen = [known[row] for row in np.random.default_rng(0).permutation(len(known))[:SHOWN]]
    results = captioner.caption([Image.open(io.BytesIO(picture.read())) for picture in chosen], num_beams=5)
    maps = [
        replace(result.attention, name=picture.name)
        for picture, result in zip(chosen, results, strict=True)
        if result.attention is not None
    ]
    save_page(f"{name}: {len(maps)} test pictures", [Look("", seen) for seen in maps], path)
    print(f"wrote {path}")


def measure_baselines(encoder: Path, data: str | None) -> dict[str, Any]:
    train, test = pictures("train", data), pictures("test", data)
    references = [picture.captions for picture in train]
    constant = best_constant(references)
    finder = regard.load(encoder)
    neighbours = neighbour_captions(looks(finder, train), references, looks(finder, test))
    wanted = [picture.captions for picture in test]
    return {
        BASELINES[0]: {"caption": constant, "test": caption_scores([constant] * len(test), wanted).as_dict()},
        BASELINES[1]: {"test": caption_scores(neighbours, wanted).as_dict()},
    }


def measure(name: str, out: Path, data: str | None) -> dict[str, Any]:
    overrides = [f"start={out / ENCODER}", f"data.cache={out / 'flickr8k-cache'}"]
    run, outcome = finished_run(RUNS[name], out, data, overrides)
    captioner = regard.load(run.folder)
    found = runner.evaluate(run.folder, "test", data=data, num_beams=5)
    decoder = (known for part, known in captioner.model.named_parameters() if not part.startswith("encoder"))
    return {
        "recipe": RUNS[name],
        "parameters_without_encoder": sum(each.numel() for each in decoder),
        "steps": outcome.progress.step,
        "train_seconds": round(outcome.progress.seconds, 1),
        "valid_nll": outcome.progress.best_loss,
        "encoder_test": runner.evaluate(out / ENCODER, "test", data=data).as_dict(),
        "test": found.as_dict(),
        "captions": dict(list(found.captions.items())[:40]),
        "config": run.config(),
    }


def table(results: dict[str, Any]) -> str:
    lines = ["| | BLEU-1 | BLEU-2 | BLEU-3 | BLEU-4 | CIDEr-D | ROUGE-L | captions | minutes |", "|---" * 9 + "|"]
    for name, known in results.items():
        test = known["test"]
        bleu = " | ".join(f"{test['bleu'][order]:.1f}" for order in "1234")
        low, high = test["cider_interval"]
        minutes = f"{known['train_seconds'] / 60:.0f}" if "train_seconds" in known else "-"
        lines.append(
            f"| {name} | {bleu} | {test['cider']:.3f} ({low:.3f} to {high:.3f}) | {test['rouge']:.3f} "
            f"| {test['distinct']} | {minutes} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data")
    parser.add_argument("--out", default="runs", type=Path)
    parser.add_argument("--only", nargs="*", choices=list(RUNS), default=[])
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--page", metavar="FILE.html")
    arguments = parser.parse_args()
    if arguments.page:
        name = arguments.only[0] if arguments.only else "Show, Attend and Tell, soft"
        return draw_page(name, arguments.out, arguments.data, arguments.page)
    path = FOLDER / f"{NAME}.json"
    record: dict[str, Any] = json.loads(path.read_text("utf-8")) if path.exists() else {"encoder": {}, "runs": {}}
    encoder, known = record["encoder"], record["runs"]

    def write() -> None:
        ordered = {name: known[name] for name in (*BASELINES, *RUNS) if name in known}
        write_result(NAME, "python benchmarks/flickr8k_captions.py", {"encoder": encoder, "runs": ordered})

    if not arguments.table:
        run, outcome = finished_run(ENCODER, arguments.out, arguments.data, [])
        if not encoder:
            encoder |= {
                "train_seconds": round(outcome.progress.seconds, 1),
                "steps": outcome.progress.step,
                "test": runner.evaluate(run.folder, "test", data=arguments.data).as_dict(),
                "config": run.config(),
            }
            known |= measure_baselines(run.folder, arguments.data)
            write()
        for name in arguments.only or [name for name in RUNS if name not in known]:
            known[name] = measure(name, arguments.out, arguments.data)
            write()
    print(table({name: known[name] for name in (*BASELINES, *RUNS) if name in known}))


if __name__ == "__main__":
    main()
