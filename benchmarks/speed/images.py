"""ViT-B/16 with random weights over 32 pictures of 224 x 224 pixels, four at a time.

Peers: Hugging Face transformers and timm, with the same weights; all logits must agree within 1e-3 before anything is
measured.
"""

import argparse
from typing import Any

import torch
from torch import Tensor

from regard.models import vit
from speed.peers import eight_bits, read_back
from speed.rounds import ROUNDS, compare

PICTURES, AT_ONCE, LABELS, AGREE = 32, 4, 1000, 1e-3
PROMISED = {("regard", "transformers"): 1.05, ("regard", "timm"): 1.05, ("regard int8", "transformers"): None}


def measure(options: list[str]) -> dict[str, Any]:
    parser = argparse.ArgumentParser(prog="python -m benchmarks images", description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
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
    ours = read_back(theirs, vit, "vit", vit.public_names)
    small = eight_bits(ours)
    third = timm_model(theirs, size, layers, heads)
    pictures = torch.rand(PICTURES, 3, 224, 224).split(AT_ONCE)

    def seen(model: Any) -> Tensor:
        with torch.inference_mode():
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


def timm_model(theirs: Any, size: int, layers: int, heads: int) -> Any:
    """timm's ViT with the weights of transformers' under its own names."""
    from timm.models.vision_transformer import VisionTransformer

    model = VisionTransformer(embed_dim=size, depth=layers, num_heads=heads, num_classes=LABELS, norm_layer=None).eval()
    theirs = {name.removeprefix("vit."): tensor for name, tensor in theirs.state_dict().items()}
    table = {
        "cls_token": "embeddings.cls_token",
        "pos_embed": "embeddings.position_embeddings",
        **{
            f"{mine}.{kind}": f"{other}.{kind}"
            for mine, other in (
                ("patch_embed.proj", "embeddings.patch_embeddings.projection"),
                ("norm", "layernorm"),
                ("head", "classifier"),
            )
            for kind in ("weight", "bias")
        },
    }
    weights = {mine: theirs[other] for mine, other in table.items()}
    for number in range(layers):
        block = f"encoder.layer.{number}"
        for kind in ("weight", "bias"):
            attention = f"{block}.attention.attention"
            parts = [theirs[f"{attention}.{part}.{kind}"] for part in ("query", "key", "value")]
            weights[f"blocks.{number}.attn.qkv.{kind}"] = torch.cat(parts)
            for mine, other in (
                ("attn.proj", "attention.output.dense"),
                ("norm1", "layernorm_before"),
                ("norm2", "layernorm_after"),
                ("mlp.fc1", "intermediate.dense"),
                ("mlp.fc2", "output.dense"),
            ):
                weights[f"blocks.{number}.{mine}.{kind}"] = theirs[f"{block}.{other}.{kind}"]
    model.load_state_dict(weights)
    return model
