"""Whatever reads a picture, as one memory: annotations a_1 ... a_L, one vector per region of a grid, row by row.

Backbones by name: `small_cnn`, the network of image_cnn.py, or `timm:NAME`, any convolutional network or Vision
Transformer of the timm library (the extra `timm`). Building one never downloads weights: they come from a checkpoint,
from the run one starts from, or from a file.
"""

import math
import re
from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.errors import RegardError, UsageError, shortened, told
from regard.layers.image_cnn import ImageCNN

Images = Float[Tensor, "batch channels height width"]
Regions = Float[Tensor, "batch regions region_size"]
TIMM = "timm:"


class ImageEncoder(nn.Module):
    """Pictures of one size to regions; `grid` says how many rows and columns of them, `size` how wide each is."""

    def __init__(self, backbone: str, image_size: int):
        super().__init__()
        make, name = (timm_maps, backbone.removeprefix(TIMM)) if backbone.startswith(TIMM) else (own_maps, backbone)
        self.backbone, self.size, self.grid = make(name, image_size)

    def forward(self, images: Images) -> Regions:
        maps = self.backbone(images)
        return maps.flatten(2).transpose(1, 2) if maps.dim() == 4 else maps


Made = tuple[nn.Module, int, tuple[int, int]]  # the network, the size of its regions, and their grid
OWN: dict[str, Callable[[], ImageCNN]] = {
    "small_cnn": ImageCNN,
    "tiny_cnn": lambda: ImageCNN(sizes=(8, 8, 8)),  # for tests and first tries
}


def own_maps(name: str, image_size: int) -> Made:
    if name not in OWN:
        raise UsageError(f"there is no backbone called {shortened(name)}: choose one of {', '.join(OWN)} or {TIMM}NAME")
    network = OWN[name]()
    side = image_size // network.stride
    if side < 1 or image_size % network.stride:
        raise UsageError(f"model.image_size is {image_size} but {name} cuts pictures into regions of {network.stride}")
    return network, network.size, (side, side)


def timm_maps(name: str, image_size: int) -> Made:
    if not re.fullmatch(r"[a-z0-9_.]+", name, re.IGNORECASE):
        # timm would take hf-hub:... and local-dir:... for places to read code's settings and weights from.
        raise UsageError(f"{shortened(name)} is not the name of a network of timm; see timm.list_models()")
    try:
        import timm
    except ImportError as error:
        raise RegardError(f"the backbone {TIMM}{name} needs timm; run: pip install 'regard[timm]'") from error
    except Exception as error:  # such as a torchvision that was made for another build of torch
        raise RegardError(f"timm is installed but cannot be imported: {told(error)}") from error
    try:
        network = timm.create_model(name, pretrained=False, num_classes=0, global_pool="")
    except Exception as error:  # timm raises what each network thinks best
        raise UsageError(
            f"timm cannot build {name!r} ({' '.join(str(error).split())}); see timm.list_models()"
        ) from error
    wrapped = TimmMaps(network)
    with torch.device("meta"):
        sketch = TimmMaps(timm.create_model(name, pretrained=False, num_classes=0, global_pool="")).eval()
        maps = sketch(torch.empty(1, 3, image_size, image_size))
    if maps.dim() == 4:
        return wrapped, maps.shape[1], (maps.shape[2], maps.shape[3])
    side = math.isqrt(maps.shape[1])
    if side * side != maps.shape[1]:
        raise UsageError(
            f"{TIMM}{name} reads {maps.shape[1]} tokens, which are no square grid; choose another backbone"
        )
    return wrapped, maps.shape[2], (side, side)


class TimmMaps(nn.Module):
    """A network of timm up to its last maps, or its patch tokens without the class token and the like."""

    def __init__(self, network: Any):
        super().__init__()
        self.network = network

    def forward(self, images: Images) -> Float[Tensor, "batch ..."]:
        states = self.network.forward_features(images)
        if states.dim() == 4 and states.shape[1] != self.network.num_features:  # some keep the channels last
            states = states.permute(0, 3, 1, 2)
        return states if states.dim() == 4 else states[:, getattr(self.network, "num_prefix_tokens", 0) :]
