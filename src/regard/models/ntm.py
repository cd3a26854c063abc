"""The Neural Turing Machine (Graves, Wayne & Danihelka 2014, https://arxiv.org/abs/1410.5401).

    h_t        = controller(x_t, r_{t-1})                  a layer of tanh units, or an LSTM
    k, beta, g, s, gamma, e, a  =  W_h h_t                 what every head wishes for
    w_t        = address(M_{t-1}, w_{t-1}, k, beta, g, s, gamma)
    r_t        = sum_i w_t(i) M_{t-1}(i)                   read heads
    M_t(i)     = M_{t-1}(i) [1 - w_t(i) e] + w_t(i) a      write heads
    y_t        = W_y [h_t; r_t]                            logits

The addressing is in `regard.layers.addressing`. The paper leaves the order of the heads open: here all of them look at
the memory as the last step left it, then the writing happens, so that one batched attention serves every head. What
an episode begins with (the read vectors, the heads' places, the state of the controller) is learnt; the memory begins
as one small constant, which is known to train most reliably (Collier & Beel 2018). Steps under a mask leave everything
as it was: padding changes nothing.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, replace

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.errors import UsageError
from regard.layers.addressing import addressing, wishes_size, written

Inputs = Float[Tensor, "batch steps input_size"]
Mask = Bool[Tensor, "batch steps"]
Logits = Float[Tensor, "batch steps output_size"]
Hidden = Float[Tensor, "batch parts size"]  # what a controller carries on: nothing, or h and c

EMPTY = 1e-6  # what every cell of the memory holds at the start of an episode
FIRST_CELL = 5.0  # how much the heads' first place is preferred to any other, before training, as a logit


@dataclass(frozen=True)
class Config:
    """The sizes of a Neural Turing Machine."""

    input_size: int
    output_size: int
    controller: str = "feedforward"  # or "lstm"
    controller_size: int = 100
    cells: int = 128  # N, the rows of the memory
    cell_size: int = 20  # M, its columns
    read_heads: int = 1
    write_heads: int = 1
    shift: int = 1  # a head may move by so many cells in one step, either way

    def __post_init__(self) -> None:
        for field in fields(self):
            value, least = getattr(self, field.name), 0 if field.name == "shift" else 1
            if isinstance(value, int) and value < least:
                raise UsageError(f"model.{field.name} is {value} but must be at least {least}")
        if 2 * self.shift + 1 > self.cells:
            raise UsageError(f"model.shift={self.shift} reaches around a memory of {self.cells} cells: give it more")
        if self.controller not in CONTROLLERS:
            known = ", ".join(CONTROLLERS)
            raise UsageError(f"there is no controller called {self.controller!r}: choose one of {known}")


PRESETS: dict[str, dict[str, object]] = {
    "paper": dict(controller_size=100, cells=128, cell_size=20),
    "small": dict(controller_size=64, cells=32, cell_size=12),
}


@dataclass(frozen=True)
class State:
    """What one step leaves to the next."""

    memory: Float[Tensor, "batch cells cell_size"]
    weights: Float[Tensor, "batch heads cells"]  # read heads first
    reads: Float[Tensor, "batch read_heads cell_size"]
    hidden: Hidden


@dataclass(frozen=True)
class Step:
    """What one step did."""

    state: State
    said: Float[Tensor, "batch size"]  # the controller's output and what was read
    adds: Float[Tensor, "batch write_heads cell_size"]


@dataclass(frozen=True)
class Trace:
    """Everything that happened in a batch of episodes."""

    logits: Logits
    reads: Float[Tensor, "batch steps read_heads cell_size"]
    adds: Float[Tensor, "batch steps write_heads cell_size"]
    read_weights: Float[Tensor, "batch steps read_heads cells"]
    write_weights: Float[Tensor, "batch steps write_heads cells"]
    memory: Float[Tensor, "batch steps cells cell_size"]  # after each step


class FeedForward(nn.Module):
    """h = tanh(W x + U r + b). Whatever it is to remember must go through the memory."""

    first: Tensor

    def __init__(self, input_size: int, read_size: int, size: int):
        super().__init__()
        self.input, self.read = nn.Linear(input_size, size), nn.Linear(read_size, size, bias=False)
        self.register_buffer("first", torch.empty(0, size), persistent=False)  # it carries nothing on

    def forward(self, seen: Tensor, reads: Tensor, hidden: Hidden) -> tuple[Tensor, Hidden]:
        return torch.tanh(seen + self.read(reads)), hidden


class LongShortTerm(nn.Module):
    """An LSTM cell over [x; r]."""

    def __init__(self, input_size: int, read_size: int, size: int):
        super().__init__()
        self.input, self.read = nn.Linear(input_size, 4 * size), nn.Linear(read_size + size, 4 * size, bias=False)
        self.first = nn.Parameter(torch.zeros(2, size))

    def forward(self, seen: Tensor, reads: Tensor, hidden: Hidden) -> tuple[Tensor, Hidden]:
        state, cell = hidden.unbind(1)
        gates, new = (seen + self.read(torch.cat([reads, state], -1))).split((3 * state.shape[1], state.shape[1]), -1)
        enter, keep, leave = gates.sigmoid().chunk(3, -1)
        cell = keep * cell + enter * new.tanh()
        state = leave * cell.tanh()
        return state, torch.stack([state, cell], 1)


CONTROLLERS: dict[str, type[FeedForward] | type[LongShortTerm]] = {"feedforward": FeedForward, "lstm": LongShortTerm}


class NeuralTuringMachine(nn.Module):
    """Reads a sequence of vectors and says one vector of logits per step."""

    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        heads = config.read_heads + config.write_heads
        wishes = wishes_size(config.cell_size, config.shift)
        read_size = config.read_heads * config.cell_size
        self.controller = CONTROLLERS[config.controller](config.input_size, read_size, config.controller_size)
        self.wishes = nn.Linear(config.controller_size, heads * wishes + 2 * config.write_heads * config.cell_size)
        self.addressing = addressing(config.cells, config.cell_size, config.shift)
        self.output = nn.Linear(config.controller_size + read_size, config.output_size)
        self.first_reads = nn.Parameter(torch.zeros(config.read_heads, config.cell_size))
        self.first_places = nn.Parameter(torch.zeros(heads, config.cells))
        # Equal cells under equal weights would stay equal for ever: every head needs a place to begin from.
        nn.init.constant_(self.first_places[:, 0], FIRST_CELL)

    def forward(self, inputs: Inputs, mask: Mask | None = None) -> Logits:
        """`mask` says which steps are real."""
        return self._logits(step.said for step in self.steps(inputs, mask))

    def trace(self, inputs: Inputs, mask: Mask | None = None) -> Trace:
        """The same episodes with all that the heads did."""
        steps = list(self.steps(inputs, mask))
        readers, count = self.config.read_heads, self.config.read_heads + self.config.write_heads
        weights = torch.stack([step.state.weights for step in steps], 1)
        reading, writing = weights.split((readers, count - readers), 2)
        return Trace(
            logits=self._logits(step.said for step in steps),
            reads=torch.stack([step.state.reads for step in steps], 1),
            adds=torch.stack([step.adds for step in steps], 1),
            read_weights=reading,
            write_weights=writing,
            memory=torch.stack([step.state.memory for step in steps], 1),
        )

    def steps(self, inputs: Inputs, mask: Mask | None = None) -> Iterator[Step]:
        """One step after the other."""
        state = self.start(len(inputs))
        for place, seen in enumerate(self.controller.input(inputs).unbind(1)):
            step = self.step(seen, state)
            if mask is not None:
                step = replace(step, state=_where(mask[:, place], step.state, state))
            yield step
            state = step.state

    def start(self, batch: int) -> State:
        """The state in which every episode begins."""
        config = self.config
        first = (self.first_places.softmax(-1), self.first_reads, self.controller.first)
        weights, reads, hidden = (each.expand(batch, *each.shape) for each in first)
        return State(reads.new_full((batch, config.cells, config.cell_size), EMPTY), weights, reads, hidden)

    def step(self, seen: Float[Tensor, "batch size"], state: State) -> Step:
        """`seen` is the input as the controller projects it, for all steps at once."""
        config = self.config
        output, hidden = self.controller(seen, state.reads.flatten(1), state.hidden)
        heads, size = state.weights.shape[1], wishes_size(config.cell_size, config.shift)
        wishes, changes = self.wishes(output).split((heads * size, 2 * config.write_heads * config.cell_size), -1)
        queries = torch.cat([wishes.unflatten(-1, (heads, size)), state.weights], -1)
        attended = self.addressing(queries, self.addressing.remember(state.memory))
        erase, adds = changes.unflatten(-1, (2, config.write_heads, config.cell_size)).unbind(1)
        memory = written(state.memory, attended.weights[:, config.read_heads :], erase.sigmoid(), adds)
        reads = attended.context[:, : config.read_heads]
        said = torch.cat([output, reads.flatten(1)], -1)
        return Step(State(memory, attended.weights, reads, hidden), said, adds)

    def _logits(self, said: Iterable[Float[Tensor, "batch size"]]) -> Logits:
        return self.output(torch.stack(list(said), 1))


FAMILIES = {"ntm": NeuralTuringMachine}


def _where(real: Bool[Tensor, "batch"], new: State, old: State) -> State:
    """The new state where the step was real, the old one where it was padding."""
    pairs = ((getattr(new, field.name), getattr(old, field.name)) for field in fields(State))
    return State(*(torch.where(real.view(-1, *[1] * (after.dim() - 1)), after, before) for after, before in pairs))
