"""`regard demo`: minutes from nothing to a trained Transformer, its scores and its attention page."""

import json
import shutil
from pathlib import Path

from regard.cli.train import finish_training
from regard.errors import UsageError
from regard.files import write_text
from regard.loading import load
from regard.recipes import load_recipe, runner
from regard.settings import build
from regard.tasks.translate import TranslationData
from regard.training.run import CONFIG, Run
from regard.views import Example, attention_page

RECIPE = "demo-translate"
SAMPLES = 8  # sentences shown and drawn


def run_demo(folder: Path) -> None:
    recipe = load_recipe(RECIPE)
    if folder.exists():
        if not (folder / CONFIG).exists() or Run.open(folder).config().get("about") != recipe.about:
            raise UsageError(f"{folder} is not an earlier demo: choose another folder with --out")
        shutil.rmtree(folder)
    print(f"Training a Transformer for up to three minutes. Its data: {recipe.about}.")
    finish_training(recipe, str(folder), None)

    evaluation = runner.evaluate(folder, "test")
    translator = load(folder)
    pairs = list(build(TranslationData, recipe.data, "data").pairs("test", None))
    shown = [pair for pair in pairs if len(pair.source.split()) >= 6][:SAMPLES]
    results = translator.translate([pair.source for pair in shown])
    print("\nSentences it has never seen:\n")
    for pair, result in zip(shown, results, strict=True):
        note = "" if result.text == pair.target else f"\n      (reference: {pair.target})"
        print(f"  {pair.source}\n    → {result.text}{note}")
    print(f"\n{evaluation.told()}")

    chosen = evaluation.chosen or "mean"
    record = {
        "bleu": evaluation.scores.bleu,
        "chrf": evaluation.scores.chrf,
        "aer": evaluation.alignment[chosen].error_rate,
        "aer_from": chosen,
        "train_seconds": round(Run.open(folder).read_metrics()[-1]["seconds"], 1),
        "parameters": sum(parameter.numel() for parameter in translator.model.parameters()),
        **evaluation.as_dict(),
    }
    write_text(folder / "results.json", json.dumps(record, indent=1))
    examples = [
        Example(
            pair.source,
            result.text,
            pair.target,
            result.attention,
            result.score,
            pair.links if result.text == pair.target else None,
        )
        for pair, result in zip(shown, results, strict=True)
    ]
    attention_page("regard demo: what the translator attends to", examples, folder / "attention.html")
    print(f"\nScores: {folder / 'results.json'}\nOpen in a browser: {folder / 'attention.html'}")
