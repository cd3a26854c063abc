"""What devices can do, as their makers say: dense products, without sparsity.

`link` is what a device sends, one way, to another of its machine, `network` to one of another machine, where machines
have eight devices. A TPU chip sends on one of its links. A `cpu` is one core with two 8-wide fused multiply-adds a
cycle (AVX2) at 3 GHz; its memory is whatever the machine has.
"""

import difflib
from dataclasses import dataclass

from regard.errors import UsageError

TERA, GIGA, GIBI = 1e12, 1e9, 2.0**30
PRECISIONS = {"fp32": 4, "tf32": 4, "bf16": 2, "fp16": 2}  # bytes of what products read
MACHINE = 8  # devices


@dataclass(frozen=True)
class Device:
    """The peak of each precision in FLOP/s, memory in bytes, and bytes per second of its memory and its wires."""

    name: str
    peaks: dict[str, float]
    usual: str  # the precision one trains in
    memory: float | None
    bandwidth: float  # of its own memory
    link: float
    network: float
    source: str


def _device(
    name: str,
    peaks: dict[str, float],
    usual: str,
    memory: float | None,
    bandwidth: float,
    link: float,
    network: float,
    source: str,
) -> Device:
    """In TFLOP/s, GiB and GB/s, as the sheets have it."""
    return Device(
        name,
        {precision: TERA * peak for precision, peak in peaks.items()},
        usual,
        None if memory is None else memory * GIBI,
        bandwidth * GIGA,
        link * GIGA,
        network * GIGA,
        source,
    )


_NVIDIA = (
    _device("k40", {"fp32": 4.29}, "fp32", 12, 288, 8, 1.25, "NVIDIA Tesla K40 board specification"),
    _device("k6000", {"fp32": 5.2}, "fp32", 12, 288, 8, 1.25, "NVIDIA Quadro K6000 data sheet"),
    _device("p100", {"fp32": 10.6, "fp16": 21.2}, "fp32", 16, 732, 80, 6.25, "NVIDIA Tesla P100 (NVLink) data sheet"),
    _device("v100", {"fp32": 15.7, "fp16": 125}, "fp16", 32, 900, 150, 6.25, "NVIDIA V100 (SXM2) data sheet"),
    _device("t4", {"fp32": 8.1, "fp16": 65}, "fp16", 16, 320, 16, 1.25, "NVIDIA T4 data sheet"),
    _device(
        "a100-40",
        {"fp32": 19.5, "tf32": 156, "bf16": 312, "fp16": 312},
        "bf16",
        40,
        1555,
        300,
        25,
        "NVIDIA A100 (SXM, 40 GB) data sheet; DGX A100 for the network",
    ),
    _device(
        "a100",
        {"fp32": 19.5, "tf32": 156, "bf16": 312, "fp16": 312},
        "bf16",
        80,
        2039,
        300,
        25,
        "NVIDIA A100 (SXM, 80 GB) data sheet; DGX A100 for the network",
    ),
    _device(
        "h100",
        {"fp32": 67, "tf32": 494.7, "bf16": 989.4, "fp16": 989.4},
        "bf16",
        80,
        3350,
        450,
        50,
        "NVIDIA H100 (SXM) data sheet; DGX H100 for the network",
    ),
)
_GOOGLE = (
    _device("tpu-v2", {"bf16": 46}, "bf16", 16, 700, 62, 62, "Jouppi et al. 2020, table 3"),
    _device("tpu-v3", {"bf16": 123}, "bf16", 32, 900, 82, 82, "Google Cloud documentation; Jouppi et al. 2020"),
    _device("tpu-v4", {"bf16": 275}, "bf16", 32, 1200, 50, 50, "Google Cloud documentation"),
)
_CPU = (_device("cpu", {"fp32": 0.096}, "fp32", None, 10, 10, 1.25, "2 x 8 x 2 FLOPs a cycle at 3 GHz, one core"),)

DEVICES = {device.name: device for device in (*_NVIDIA, *_GOOGLE, *_CPU)}

# What trainings reach of the peak, all in all: see docs/use/plan.md.
EFFICIENCIES = {"fp32": 0.35, "tf32": 0.4, "bf16": 0.4, "fp16": 0.4}
EFFICIENCY_SOURCES = {
    "fp32": "what Transformer big's report implies on P100s, and our own Multi30k training on two CPU cores",
    "tf32": "as bf16",
    "bf16": "Llama 3 405B on H100s, 38 to 43 % (Dubey et al. 2024)",
    "fp16": "as bf16",
}


def named_device(name: str) -> Device:
    if name not in DEVICES:
        close = difflib.get_close_matches(name, DEVICES, n=1)
        hint = f" (did you mean {close[0]!r}?)" if close else ""
        raise UsageError(f"there is no device called {name!r}{hint}: choose one of {', '.join(DEVICES)}")
    return DEVICES[name]


def named_precision(device: Device, name: str | None) -> str:
    """The precision asked for, or the device's usual one."""
    if name is not None and name not in device.peaks:
        raise UsageError(f"{device.name} has no products in {name!r}: choose one of {', '.join(device.peaks)}")
    return name or device.usual
