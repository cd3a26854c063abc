"""Captioning runs: pictures, a frozen encoder and what it sees of them, captions, a decoder."""

from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from torch import nn

from regard import families, settings
from regard.data.captions import CaptionedImage
from regard.data.images import Preprocessing
from regard.data.region_cache import RegionSet, cached_regions, weights_key
from regard.errors import RegardError, UsageError
from regard.layers.image_encoder import TIMM
from regard.loading import load as load_run
from regard.progress import counting
from regard.recipes import Recipe
from regard.recipes.jobs import EvaluationOptions
from regard.recipes.jobs.kept import own_decoding, own_preprocessing, own_tokenizer, run_pictures, run_tokenizer
from regard.tasks.caption import Captioning, See, encoding, tokenised
from regard.tasks.caption_data import CaptionData
from regard.tasks.caption_evaluate import CaptionEvaluation, evaluate_captioner
from regard.tasks.captioner import Captioner
from regard.training import checkpoints
from regard.training.loop import choose_device
from regard.training.run import Run

TASK = "caption"
PRETRAINED = "pretrained"


def check(recipe: Recipe, data: str | Path | None) -> None:
    section = settings.build(CaptionData, recipe.data, "data")
    families.check(recipe.model, vocabulary=5)
    _, config = families.resolve(recipe.model, vocabulary=5)
    section.preprocessing(config.image_size)
    section.pictures("train", data), section.pictures("valid", data)  # a missing file should not cost a run folder
    is_timm = config.backbone.startswith(TIMM)
    if recipe.start is None and section.weights is None:
        wanted = f"data.weights: FILE.safetensors or {PRETRAINED}" if is_timm else "start: a run of the task `regions`"
        raise UsageError(
            f"the encoder stays as it is while captions are learnt, so it must know how to see: give {wanted}"
        )
    if section.weights is not None and not is_timm:
        raise UsageError(f"data.weights is for backbones of timm; {config.backbone} starts from a run (start: RUN)")
    if section.weights not in (None, PRETRAINED) and not Path(section.weights or "").is_file():
        raise UsageError(f"data.weights: {section.weights}: no such file; name a .safetensors file or {PRETRAINED}")


def prepare(recipe: Recipe, run: Run, data: str | Path | None) -> tuple[Captioner, Captioning]:
    section = settings.build(CaptionData, recipe.data, "data")
    training = recipe.training_settings()
    skipped: Counter[str] = Counter()
    pictures = {
        split: run_pictures(run, split, partial(section.pictures, split, data), fingerprints=True)
        for split in ("train", "valid")
    }
    said = (caption for picture in pictures["train"] for caption in picture.captions)
    tokenizer = run_tokenizer(run, lambda: said, section.tokenizer, section.vocabulary)
    train, valid = (tokenised(pictures[split], tokenizer, section.max_length, skipped) for split in ("train", "valid"))
    for why, count in skipped.items():
        run.log(f"left out: {count} {why}")
    known = {"vocabulary": len(tokenizer), "pad": tokenizer.pad}
    model, config_json = families.seeded(recipe.model, TASK, training.seed, **known)
    if section.weights is not None and not run.saved_steps():
        _fill(model.encoder.backbone.network, section.weights)
    model.encoder.requires_grad_(False)
    preprocessing = section.preprocessing(model.config.image_size)
    see = _seeing(model, preprocessing, Path(section.cache) if section.cache else run.folder / "data" / "regions", run)
    captioner = Captioner(model, tokenizer, recipe.decoding_settings(), preprocessing, config_json)
    device = choose_device(training.device)
    return captioner, Captioning(tokenizer, train, valid, see, section.mirror, training, device)


def evaluate(
    run: str | Path, recipe: Recipe, split: str, data: str | Path | None, options: EvaluationOptions
) -> CaptionEvaluation:
    section = settings.build(CaptionData, recipe.data, "data")
    pictures = list(section.pictures(split, data))
    with counting("captioning", len(pictures)) as finished:
        return evaluate_captioner(
            load_run(run, int8=options.int8),
            pictures,
            num_beams=options.num_beams,
            length_penalty=options.length_penalty,
            finished=finished,
        )


def load(folder: Path, model: nn.Module, config_json: str) -> Captioner:
    tokenizer, preprocessing = own_tokenizer(folder, model), own_preprocessing(folder, 3)
    return Captioner(model, tokenizer, own_decoding(folder), preprocessing, config_json)


def _seeing(model: Any, preprocessing: Preprocessing, cache: Path, run: Run) -> See:
    """What the model's encoder, with the weights it has when it is asked, sees of pictures."""

    def see(pictures: Sequence[CaptionedImage], mirrored: bool) -> RegionSet:
        key = weights_key(model.encoder.state_dict().items())
        encode = encoding(model, preprocessing)
        return cached_regions(pictures, preprocessing, key, encode, cache, mirrored=mirrored, say=run.log)

    return see


def _fill(network: Any, weights: str) -> None:
    """Give a network of timm its weights: from a file, or, as was asked for, from where timm keeps its own."""
    if weights == PRETRAINED:
        import timm

        tensors = timm.create_model(network.default_cfg["architecture"], pretrained=True, num_classes=0).state_dict()
    else:
        tensors = checkpoints.load_tensors(Path(weights))
    ours = network.state_dict()
    missing = sorted(name for name in ours if name not in tensors or tensors[name].shape != ours[name].shape)
    if missing:
        raise RegardError(
            f"{weights}: lacks {len(missing)} tensors of the backbone, such as {missing[0]}; choose another"
        )
    network.load_state_dict({name: tensors[name] for name in ours})
