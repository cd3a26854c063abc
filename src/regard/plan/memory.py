"""What a device holds during a training step, in bytes.

With P parameters, k numbers of the optimiser for each (Adam: 2), b bytes in products (fp32, tf32: 4; bf16, fp16: 2)
and n devices:

                  ddp                            fsdp
    parameters    4 P                            4 ceil(P / n), by the rows of each tensor
    optimiser     4 k P                          4 k ceil(P / n)
    gradients     4 P                            4 ceil(P / n)
    copies        2 P of the matrices if b = 2   2 b (root + 2 blocks): gathered weights and their gradients

Parameters, optimiser and copies are there all the time. What comes and goes has its peak in one of four moments, A
being the activations, H = vectors x size and W = vocabulary x size the two sides of the head:

    the loss is made     A + 4 (2 H + W) + the part of the logits that is held at once; once more 4 W with a bias
    the way back begins  A + 4 (2 H + 2 W)
    in the last block    A + 4 W + the gradients of a block's states
    at its end           the gradients + 4 W where the head is the embedding, whose two gradients are added

Without ddp or fsdp (one device) gradients appear while activations go; with them they live in buckets all the time,
and are added to each moment.
"""

from dataclasses import dataclass

from regard.layers.cross_entropy import CHUNK_ELEMENTS
from regard.plan.derived import Bill, Head
from regard.plan.devices import PRECISIONS
from regard.plan.shards import Numbers, sharded


@dataclass(frozen=True)
class Memory:
    """Bytes on the device that holds the most. The parts do not all live at once: the peak is less than their sum."""

    parameters: float
    gradients: float
    optimizer: float
    copies: float  # of weights: in another precision, or gathered
    activations: float
    passing: float  # the head and the gradients of states, at the peak
    peak: float
    cache: float  # of one row that is generated; not part of the training


def memory(numbers: Numbers, bill: Bill, *, precision: str, strategy: str, devices: int) -> Memory:
    narrow = PRECISIONS[precision]
    whole = strategy == "ddp" or devices == 1
    mine = numbers.parameters if whole else sharded(numbers.shapes, devices)
    share = mine / numbers.parameters
    parameters, gradients, optimizer = 4 * mine, 4 * share * numbers.learnt, 4 * share * numbers.optimizer
    if whole:
        copies = 2.0 * numbers.matrices if narrow == 2 else 0.0
    else:
        copies = 2.0 * narrow * (numbers.root + 2 * numbers.largest)
    activations = bill.cost.kept_bytes(narrow)
    standing = gradients if devices > 1 else 0.0
    most = standing + activations + max(_passing(bill, narrow))
    most = max(most, gradients + _tied(bill.head))
    return Memory(
        parameters=parameters,
        gradients=gradients,
        optimizer=optimizer,
        copies=copies,
        activations=activations,
        passing=max(_passing(bill, narrow)),
        peak=parameters + optimizer + copies + most,
        cache=narrow * bill.cache,
    )


def _passing(bill: Bill, narrow: int) -> tuple[float, float, float]:
    """Beside the activations: when the loss is made, when the way back begins, and in the last block."""
    block = narrow * bill.working
    if bill.head is None:
        return 0.0, 0.0, block
    head = bill.head
    vectors, words = 4.0 * head.vectors * head.size, 4.0 * head.vocabulary * head.size
    rows = min(max(1, CHUNK_ELEMENTS // head.vocabulary), head.vectors)
    logits = 4.0 * rows * head.vocabulary
    made = 2 * vectors + words * (2 if head.biased else 1) + logits
    return made, 2 * vectors + 2 * words, words + block


def _tied(head: Head | None) -> float:
    return 4.0 * head.vocabulary * head.size if head is not None and head.tied else 0.0
