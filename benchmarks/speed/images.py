"""ViT-B/16 with random weights over 32 pictures of 224 x 224 pixels, four at a time.

Peers: Hugging Face transformers and timm, with the same weights; all logits must agree within 1e-3 before anything is
measured.
"""

import argparse
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor

from regard.layers.packed import packed
from regard.models import vit
from speed.peers import eight_bits, same_as
from speed.rounds import ROUNDS, compare

PICTURES, AT_ONCE, LABELS, AGREE = 32, 4, 1000, 1e-3
PROMISED = {("regard", "transformers"): 1.05, ("regard", "timm"): 1.05, ("regard int8", "transformers"): None}

TIMM = {  # parts of our names, and what they are called there
    "class_token": "cls_token",
    "positions": "pos_embed",
    "patches": "patch_embed.proj",
    "layers": "blocks",
    "self_attention.query_key_value": "attn.qkv",
    "self_attention.output": "attn.proj",
    "feed_forward.expand": "mlp.fc1",
    "feed_forward.contract": "mlp.fc2",
    "around_self_attention.norm": "norm1",
    "around_feed_forward.norm": "norm2",
}


def measure(options: list[str]) -> dict[str, Any]:
    parser = argparse.ArgumentParser(prog="python -m benchmarks images", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3 * ROUNDS)  # five per cent are easily lost in noise
    parser.add_argument("--quick", action="store_true", help="a tiny model, to see that everything runs")
    arguments = parser.parse_args(options)
    import transformers

    torch.manual_seed(0)
    size, layers, heads = (32, 2, 2) if arguments.quick else (768, 12, 12)
    config = transformers.ViTConfig(
        num_labels=LABELS,
        hidden_size=size,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=4 * size,
    )
    theirs = transformers.ViTForImageClassification(config).eval()
    ours = same_as(theirs, vit, "vit")
    small = eight_bits(ours)
    third = timm_model(ours)
    pictures = torch.rand(PICTURES, 3, 224, 224).split(AT_ONCE)

    def seen(model: Any) -> Tensor:
        with packed(model) if model in (ours, small) else nullcontext(), torch.inference_mode():  # as `classify` does
            return torch.cat([getattr(found, "logits", found) for found in map(model, pictures)])

    wanted = seen(ours)
    for name, model in (("transformers", theirs), ("timm", third)):
        difference = (seen(model) - wanted).abs().max().item()
        if difference > AGREE:
            raise SystemExit(f"the logits of {name} differ by {difference:.1e}: nothing is measured")
    sides = {"regard": ours, "regard int8": small, "transformers": theirs, "timm": third}
    works = {name: (lambda model=model: seen(model)) for name, model in sides.items()}
    return {
        "pictures": PICTURES,
        "parameters": sum(each.numel() for each in ours.parameters()),
        **compare(works, PROMISED, arguments.rounds),
    }


def timm_model(ours: Any) -> Any:
    """timm's ViT with our weights under its own names."""
    from timm.models.vision_transformer import VisionTransformer

    config = ours.config
    shape = dict(embed_dim=config.size, depth=config.layers, num_heads=config.heads, num_classes=config.labels)
    model = VisionTransformer(**shape).eval()
    weights = {}
    for name, tensor in ours.state_dict().items():
        for mine, other in TIMM.items():
            name = name.replace(mine, other)
        weights[name] = tensor
    model.load_state_dict(weights)
    return model
