"""The functions of regard.kernels.ops in plain torch, each written as its equation.

Property tests compare the kernels with them, and layers compute with some of them where no kernel can.
"""

from collections.abc import Callable
from functools import partial

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional as F

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,  # x Phi(x), exactly
    "gelu_tanh": partial(F.gelu, approximate="tanh"),
    "silu": F.silu,  # x sigmoid(x), also called swish
}
States = Float[Tensor, "directions rows size"]
Gates = Float[Tensor, "directions rows gates"]  # r, z and n side by side


def linear(
    states: Float[Tensor, "*batch inputs"],
    weight: Float[Tensor, "outputs inputs"],
    bias: Float[Tensor, "outputs"] | None,
    activation: str = "none",
) -> Float[Tensor, "*batch outputs"]:
    """f(W x + b)."""
    return _activated(F.linear(states, weight, bias), activation)


def add_norm(
    states: Float[Tensor, "*batch size"],
    added: Float[Tensor, "*batch size"],
    weight: Float[Tensor, "size"],
    bias: Float[Tensor, "size"],
    epsilon: float,
) -> Float[Tensor, "*batch size"]:
    """LayerNorm(x + z)."""
    return F.layer_norm(states + added, weight.shape, weight, bias, epsilon)


def linear_int8(
    states: Float[Tensor, "*batch inputs"],
    weight: Int[Tensor, "outputs inputs"],
    scale: Float[Tensor, "outputs"],
    bias: Float[Tensor, "outputs"] | None,
    columns: Int[Tensor, "outliers"],
    outlier_weight: Float[Tensor, "outputs outliers"],
    activation: str = "none",
) -> Float[Tensor, "*batch outputs"]:
    """f(a s P Q^T + x[columns] W'^T + b): P are the inputs but `columns` as integers -127 ... 127, a their scale in
    each row; a row with infinite or NaN inputs gives NaN."""
    others = states.index_fill(-1, columns, 0.0).double()
    largest = others.abs().amax(-1, keepdim=True)
    largest = largest.clamp(min=2**-119).masked_fill(~largest.isfinite(), torch.nan)
    integers = (others / largest * 127).round()
    result = F.linear(integers, weight.double()) * scale.double() * largest / 127
    result += F.linear(states[..., columns].double(), outlier_weight.double())
    return _activated(result if bias is None else result + bias, activation).to(states.dtype)


def attention(
    query: Float[Tensor, "batch heads queries size"],
    keys: Float[Tensor, "batch heads keys size"],
    values: Float[Tensor, "batch heads keys value_size"],
    allowed: Bool[Tensor, "..."] | None,
    causal: bool,
    scale: float,
) -> tuple[Float[Tensor, "batch heads queries value_size"], Float[Tensor, "batch heads queries keys"]]:
    """softmax(q k^T scale) v, and the weights. A query that may attend to nothing gives zeros, and what it may not
    attend to changes nothing, NaN neither. `causal`: queries are the last of the keys, and attend to no later one."""
    scores = query @ keys.mT * scale
    visible = torch.ones_like(scores, dtype=torch.bool)
    if causal:
        visible = visible.tril(keys.shape[2] - query.shape[2])
    if allowed is not None:
        visible = visible & allowed
    weights = scores.masked_fill(~visible, -torch.inf).softmax(-1).masked_fill(~visible, 0.0)
    products = weights[..., None] * values[:, :, None]
    return products.masked_fill(~visible[..., None], 0.0).sum(-2), weights


def accumulate_weight_grad(
    total: Float[Tensor, "outputs inputs"],
    grad_outputs: Float[Tensor, "rows outputs"],
    states: Float[Tensor, "rows inputs"],
) -> None:
    """total += d^T x."""
    total += grad_outputs.T @ states


def gru_step(following: States, activations: Gates, gates: Gates, product: Gates, state: States) -> None:
    """From g = W x, p = U h and h: writes h' to `following`, and r, z and n to `activations`.

    r = σ(g_r + p_r),   z = σ(g_z + p_z),   n = tanh(g_n + r ⊙ p_n),   h' = (1 - z) ⊙ n + z ⊙ h
    """
    size = state.shape[-1]
    doors, new = activations.split([2 * size, size], dim=-1)
    torch.add(gates[..., : 2 * size], product[..., : 2 * size], out=doors).sigmoid_()
    torch.addcmul(gates[..., 2 * size :], doors[..., :size], product[..., 2 * size :], out=new).tanh_()
    torch.lerp(new, state, doors[..., size:], out=following)


def gru_step_backward(
    grad_gates: Gates,
    grad_product: Gates,
    carried: States,
    gradient: States,
    activations: Gates,
    product: Gates,
    state: States,
) -> None:
    """From the gradient of h', `gradient` + `carried`: writes those of g and p; `carried` becomes that of h without
    the part that comes through p."""
    size = state.shape[-1]
    reset, update, new = activations.chunk(3, dim=-1)
    grad_reset, grad_update, grad_new = grad_gates.chunk(3, dim=-1)
    total = carried + gradient
    torch.mul(total, update, out=carried)
    grad_new.copy_(torch.ops.aten.tanh_backward(total - carried, new))
    grad_update.copy_(torch.ops.aten.sigmoid_backward(total * (state - new), update))
    grad_reset.copy_(torch.ops.aten.sigmoid_backward(grad_new * product[..., 2 * size :], reset))
    grad_product.copy_(grad_gates)
    grad_product[..., 2 * size :] *= reset


def _activated(outputs: Tensor, activation: str) -> Tensor:
    return outputs if activation == "none" else ACTIVATIONS[activation](outputs)
