"""Public Vision Transformers: classifiers of images, and bare ones that embed them."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from regard import families
from regard.data.images import Preprocessing
from regard.models import vit
from regard.public.building import Checkpoint
from regard.tasks.image_classifier import ImageClassifier, ImageEmbedder
from regard.training.checkpoints import load_json

ARCHITECTURES = ["ViTForImageClassification", "ViTModel"]


def open_vit(folder: Path, values: Mapping[str, Any], device: torch.device) -> ImageEmbedder:
    checkpoint = Checkpoint(folder, values, device)
    theirs = checkpoint.weights()
    said = checkpoint.architecture(ARCHITECTURES)
    is_bare = said == "ViTModel" or (said is None and "classifier.weight" not in theirs)
    config = checkpoint.config(vit.public_config)
    config = replace(config, labels=0) if is_bare else config
    place = folder / "preprocessor_config.json"
    preprocessing = Preprocessing.from_values(load_json(place), config.channels, str(place))
    model = checkpoint.model("vit", config, vit.public_names(config), vit, theirs)
    config_json = families.config_json("vit", config, "classify-images")
    if is_bare:
        return ImageEmbedder(model, preprocessing, config_json)
    return ImageClassifier(model, checkpoint.labels(config.labels), preprocessing, config_json)
