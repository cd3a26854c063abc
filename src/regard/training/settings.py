"""How a model is trained: the `training` section of a recipe."""

from dataclasses import dataclass

from regard.errors import UsageError
from regard.training.schedules import check_schedule

STRATEGIES = ("ddp", "fsdp")
PRECISIONS = ("float32", "bfloat16")


@dataclass(frozen=True)
class Training:
    """Every key has a default; recipes change what matters to them."""

    steps: int = 10_000  # updates of the weights
    batch_tokens: int = 4096  # padded tokens of the longer side per batch
    accumulate: int = 1  # pieces a batch is computed in: less memory, the same update
    optimizer: str = "adam"  # adam, adamw, muon or rmsprop
    learning_rate: float = 1e-3  # at the end of the warm-up
    betas: tuple[float, ...] = (0.9, 0.98)  # of the mean and of the squares; rmsprop: momentum and decay
    epsilon: float = 1e-9
    weight_decay: float = 0.0  # of weight matrices: never of biases, norms, embeddings or positions
    schedule: str = "inverse_sqrt"  # inverse_sqrt, cosine, linear or constant, after the warm-up
    warmup: int | None = None  # steps of linear increase; null: a tenth of all steps, and no more than 1,000
    label_smoothing: float = 0.1
    clip_norm: float | None = 1.0  # of the whole gradient; null for no clipping
    clip_value: float | None = None  # of every element of the gradient by itself
    validate_every: int = 500
    log_every: int = 50
    keep: int = 5  # newest checkpoints kept beside the best
    average: int = 0  # newest checkpoints averaged at the end; the average is kept if it validates better
    patience: int | None = None  # validations without improvement before stopping early
    minutes: float | None = None  # stop (and validate) after so much training time
    seed: int = 0
    device: str = "auto"  # auto, cpu, cuda or mps
    precision: str = "float32"  # or bfloat16 for products, where the hardware has it; weights stay float32
    compile: bool = False  # the blocks of the model, by torch: a wait at the beginning, then perhaps faster steps
    recompute: bool = False  # keep less between forward and backward: less memory, a third more time
    strategy: str = "ddp"  # under torchrun: ddp, all weights everywhere; fsdp, a share of them in each process

    def __post_init__(self) -> None:
        for name in ("steps", "batch_tokens", "accumulate", "validate_every", "log_every", "keep"):
            if getattr(self, name) < 1:
                raise UsageError(f"training.{name} is {getattr(self, name)} but must be at least 1")
        if self.patience is not None and self.patience < 1:
            raise UsageError(f"training.patience is {self.patience} but must be at least 1; null never stops early")
        if self.minutes is not None and not self.minutes > 0:
            raise UsageError(f"training.minutes is {self.minutes} but must be positive; null for no limit")
        if self.warmup is None:  # settled once, so that a run that is drawn out later keeps what it began with
            object.__setattr__(self, "warmup", min(1000, self.steps // 10))
        for name in ("warmup", "average", "seed", "learning_rate", "weight_decay"):
            if getattr(self, name) < 0:
                raise UsageError(f"training.{name} is {getattr(self, name)} but must not be negative")
        if not 0 <= self.label_smoothing < 1:
            raise UsageError(f"training.label_smoothing is {self.label_smoothing} but must lie in [0, 1)")
        if len(self.betas) != 2 or not all(0 <= beta < 1 for beta in self.betas):
            raise UsageError(f"training.betas is {list(self.betas)} but must be two numbers in [0, 1)")
        if self.clip_value is not None and self.clip_value <= 0:
            raise UsageError(f"training.clip_value is {self.clip_value} but must be positive; null for no clipping")
        check_schedule(self.schedule)
        for name, choices in (("strategy", STRATEGIES), ("precision", PRECISIONS)):
            if getattr(self, name) not in choices:
                raise UsageError(f"training.{name} is {getattr(self, name)!r} but must be {' or '.join(choices)}")
