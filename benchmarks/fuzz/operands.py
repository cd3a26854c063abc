"""Ways to make an operand wrong, or unusual: other shapes, dtypes, devices, strides, layouts and classes."""

from collections.abc import Callable
from random import Random
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode


class Plain(Tensor):
    """A subclass that changes nothing."""

    __torch_function__ = torch._C._disabled_torch_function_impl


class Intercepting(Tensor):
    """A subclass that sees every function of torch, and whose results are twice as large."""

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, arguments: Any = (), named: Any = None) -> Any:
        result = super().__torch_function__(function, types, arguments, named or {})
        is_linear = getattr(function, "__name__", "") in ("linear", "scaled_dot_product_attention", "layer_norm")
        return result * 2 if is_linear else result


class Wrapper(Tensor):
    """A subclass without memory of its own: it computes with another tensor."""

    inner: Tensor

    @staticmethod
    def __new__(cls, inner: Tensor) -> "Wrapper":
        made = Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype, device=inner.device)
        made.inner = inner
        return made

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, arguments: Any = (), named: Any = None) -> Any:
        from torch.utils._pytree import tree_map

        def bare(value: Any) -> Any:
            return value.inner if isinstance(value, Wrapper) else value

        return function(*tree_map(bare, arguments), **tree_map(bare, named or {}))


Change = Callable[[Tensor, Random], Any]


def resized(tensor: Tensor, random: Random) -> Tensor:
    """With a dimension of another size."""
    if not tensor.dim():
        return tensor.expand(2)
    dimension, size = random.randrange(tensor.dim()), random.choice([0, 0, 1, 1, 2, 3, 5, 17])
    shape = list(tensor.shape)
    wanted = random.choice([size, shape[dimension] + 1, max(0, shape[dimension] - 1)])
    index = torch.arange(wanted) % max(1, shape[dimension])
    return (
        tensor.index_select(dimension, index)
        if shape[dimension]
        else tensor.new_zeros([*shape[:dimension], wanted, *shape[dimension + 1 :]])
    )


def overlapping(tensor: Tensor, random: Random) -> Tensor:
    """With strides that let numbers share memory."""
    strides = [random.choice([0, 1, 2]) for _ in tensor.shape]
    needed = 1 + sum(max(0, size - 1) * stride for size, stride in zip(tensor.shape, strides, strict=True))
    return torch.linspace(-1, 1, needed + 3).to(tensor.dtype).as_strided(tensor.shape, strides, random.randrange(3))


def negated(tensor: Tensor, random: Random) -> Tensor:
    """The same numbers, kept as their negatives in memory."""
    return torch.complex(tensor.float(), -tensor.float()).conj().imag


def between_bytes(tensor: Tensor, random: Random) -> Tensor:
    if tensor.is_quantized:
        raise ValueError("torch ends the process")
    memory = bytearray(tensor.nbytes + 8)
    offset = random.randrange(1, 8)
    moved = torch.frombuffer(memory, dtype=tensor.dtype, offset=offset, count=max(1, tensor.numel()))
    return moved[: tensor.numel()].view(tensor.shape).copy_(tensor)


def quantized(tensor: Tensor, random: Random) -> Tensor:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.quantize_per_tensor(tensor.float(), 0.1, 0, torch.qint8)


def with_special(tensor: Tensor, random: Random) -> Tensor:
    """With NaN or an infinity."""
    made = tensor.clone()
    if made.numel() and made.is_floating_point():
        made.view(-1)[random.randrange(made.numel())] = random.choice([float("nan"), float("inf"), -float("inf")])
    return made


def sparse_rows(tensor: Tensor, random: Random) -> Tensor:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that support of CSR is in beta
        return tensor.to_sparse_csr()


def nested(tensor: Tensor, random: Random) -> Tensor:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that nested tensors are a prototype
        layout = random.choice([torch.strided, torch.jagged])
        return torch.nested.nested_tensor(list(tensor.unbind(0)), layout=layout)


def made_in_inference(tensor: Tensor, random: Random) -> Tensor:
    with torch.inference_mode():
        return tensor.clone()


def gradual(tensor: Tensor, random: Random) -> Tensor:
    return tensor.detach().clone().requires_grad_()


DTYPES = [torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.uint8, torch.bool]
SHAPES: list[Change] = [
    resized,
    resized,
    resized,
    lambda tensor, random: tensor[0] if tensor.dim() and len(tensor) else tensor.unsqueeze(0),
    lambda tensor, random: tensor.unsqueeze(random.randrange(tensor.dim() + 1)),
    lambda tensor, random: tensor.flatten(),
    lambda tensor, random: tensor.mT if tensor.dim() > 1 else tensor.unsqueeze(1),
    lambda tensor, random: tensor.new_zeros(()),
]
STRIDES: list[Change] = [
    lambda tensor, random: tensor.mT.contiguous().mT if tensor.dim() > 1 else tensor,
    lambda tensor, random: torch.stack([tensor, tensor], -1)[..., 0],
    lambda tensor, random: tensor[:1].expand(tensor.shape) if tensor.dim() else tensor,
    lambda tensor, random: tensor.flip(0) if tensor.dim() else tensor,
    overlapping,
    negated,
    between_bytes,
]
KINDS: list[Change] = [
    lambda tensor, random: tensor.to(random.choice(DTYPES)),
    lambda tensor, random: tensor.to(random.choice(DTYPES)),
    lambda tensor, random: tensor.to(torch.complex64).conj(),
    quantized,
    lambda tensor, random: tensor.to("meta"),
    lambda tensor, random: tensor.to_sparse(),
    sparse_rows,
    lambda tensor, random: tensor.to_mkldnn(),
    nested,
    lambda tensor, random: tensor.as_subclass(Plain),
    lambda tensor, random: tensor.as_subclass(Intercepting),
    lambda tensor, random: Wrapper(tensor),
    lambda tensor, random: nn.Parameter(tensor, requires_grad=False),
    lambda tensor, random: FakeTensorMode().from_tensor(tensor),
    lambda tensor, random: torch.empty(0).set_(torch.UntypedStorage(0)),
    gradual,
    made_in_inference,
    with_special,
    with_special,
    lambda tensor, random: None,
    lambda tensor, random: tensor.tolist(),
    lambda tensor, random: 1.5,
]
ALL: list[Change] = [*SHAPES, *STRIDES, *KINDS]


def spoilt(operands: list[Any], random: Random) -> tuple[list[Any], list[str]]:
    """Operands of which up to three were changed, and which ones; a change that torch refuses is left out."""
    found, notes = list(operands), []
    for _ in range(random.choice([0, 1, 1, 1, 1, 2, 2, 3])):
        place = random.randrange(len(found))
        number = random.randrange(len(ALL))
        if type(found[place]) is not Tensor:
            continue
        try:
            found[place] = ALL[number](found[place], random)
        except Exception:  # of any kind: torch's
            continue
        notes.append(f"operand {place}: {described(found[place])}")
    return found, notes


def described(value: Any) -> str:
    if not isinstance(value, Tensor):
        return type(value).__name__
    try:
        shape, stride = tuple(value.shape), tuple(value.stride()) if value.layout is torch.strided else None
    except (RuntimeError, NotImplementedError):
        shape, stride = "?", None
    kind = type(value).__name__
    return f"{kind} {value.dtype} {value.device} {shape} strides {stride}".replace("torch.", "")
