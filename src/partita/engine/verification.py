"""Does a shortcut give the numbers of the reference? Tried once for each kind of phase, before the shortcut is used.

The samples are made up and the weights are the task's initial ones, so that every process of a run comes to the same
decision whichever client it meets first.
"""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import torch
from torch import Tensor, nn

from ..core.batching import Batching
from ..core.client import Client
from ..core.network import tensors_of
from ..core.optimizers import SGD
from ..core.penalties import Proximal
from ..core.phases import Phase
from ..core.samples import Samples
from ..core.schedules import CONSTANT
from ..core.selectors import Selector
from ..core.task import Task
from ..errors import PartitaError, ShortcutWarning, in_one_line, warn
from ..randomness import generator
from ..tensors import Tensors, network_name
from . import reference
from .eligibility import handles, plain_modules
from .shortcuts import Case, Shortcut, Shortcuts

RATE = 0.1
BATCH = 3
SAMPLES = 7
"""Three steps: the second has momentum, the third a single sample."""

Run = Callable[[Phase, Client, Tensors, Shortcuts], Tensors]


def likeness(phase: Phase) -> Phase:
    """A phase that is computed in the same way, without functions that need a real client.

    A learning rate and a schedule enter every step by one number, so that they need not be those of the phase.
    """
    optimizer = phase.optimizer
    proximal = phase.penalty if handles(phase.penalty, Proximal, "strength", "to", "on") else _penalty
    return replace(
        phase,
        optimizer=replace(optimizer, lr=RATE, schedule=CONSTANT) if type(optimizer) is SGD else SGD(RATE),
        epochs=1,
        steps=None,
        until=phase.until and _never,
        penalty=phase.penalty and proximal,
        project=phase.project and _unchanged,
        samples=_training_samples,
    )


def verified(phase: Phase, case: Case, wanted: Shortcuts, run: Run) -> Shortcuts | None:
    """The shortcuts that agree with the reference on a similar phase; None if the reference must be used.

    A warning names what does not agree.
    """
    phase = replace(phase, train=_chosen(phase, case))
    try:
        client, tensors, expected = _expected(phase, case)
    except PartitaError:
        return None  # The phase itself will end in the same error.
    except Exception as error:
        _warn(f"The fast engine cannot be checked: on made-up samples, the reference fails: {in_one_line(error)}.")
        return None

    def difference(shortcuts: Shortcuts) -> str | None:
        try:
            with _apart():
                return _difference(run(phase, client, tensors, shortcuts), expected, tensors)
        except Exception as error:
            return f"it fails: {in_one_line(error)}"

    if difference(wanted) is None:
        return wanted
    agreeing = frozenset(shortcut for shortcut in wanted if difference(frozenset({shortcut})) is None)
    for shortcuts in (wanted, agreeing, frozenset[Shortcut]()):
        reason = difference(shortcuts)
        if reason is None:
            return shortcuts
        given_up = " and ".join(sorted(shortcut.value for shortcut in shortcuts - agreeing or shortcuts))
        _warn(f"{given_up or 'Training in place'}: {reason} while training {phase.train}. Please report this.")
    return None


def _chosen(phase: Phase, case: Case) -> Selector:
    """The tensors that are trained in the case: the made-up client holds fewer, by which a selector might choose."""
    chosen = phase.trained(case.task.network, frozenset(case.names))
    return Selector(str(phase.train), lambda network, names: chosen & names)


def _expected(phase: Phase, case: Case) -> tuple[Client, Tensors, Tensors]:
    """A client, its tensors, and what the reference makes of them.

    In double precision where the network takes it: deep networks with batch norm magnify rounding errors. That takes a
    copy of the network, in which a hook or a forward of a module's own may still refer to the original.
    """
    problem: Exception | None = None
    ways = (_in_double, _as_it_is) if plain_modules(case.task.module) else (_as_it_is,)
    with _apart():
        for make_task in ways:
            # Some networks cannot be trained on a single sample.
            for count in (SAMPLES, SAMPLES - 1):
                try:
                    client, tensors = _probe(phase, case, make_task(case.task), count)
                    [expected] = reference.run_phase(phase, [client], [tensors])
                    return client, tensors, expected
                except Exception as error:
                    problem = error
    assert problem, "every attempt ended in an error"
    raise problem


def _as_it_is(task: Task) -> Task:
    return task


def _in_double(task: Task) -> Task:
    """A copy; but for the initial weights, which are only read: those of a large network take much memory."""
    made = task.copy()
    made.module.double()
    return made


def _double(tensor: Tensor) -> Tensor:
    return tensor.double() if tensor.is_floating_point() else tensor


@contextmanager
def _apart() -> Iterator[None]:
    """Restore random states afterwards, and ignore warnings: the phase itself will give the same ones."""
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _warn(found: str) -> None:
    """Warn that a shortcut is not used. `found` names the shortcut and the difference, or is a sentence."""
    text = f"{found[0].upper()}{found[1:]} It is not used: results are correct, but take longer."
    warn(text, ShortcutWarning)


def _probe(phase: Phase, case: Case, task: Task, count: int) -> tuple[Client, Tensors]:
    """A client with made-up samples and weights near the initial ones. What it received matters to penalties alone."""
    draw = generator(0, "verification")
    shape, dtype, target_shape, target_dtype = case.kind
    types = {name: tensor.dtype for name, tensor in tensors_of(task.module).items()}
    wide = torch.float64 in types.values()

    def initial(name: str) -> Tensor:
        return task.weights[name].to(types[name])

    def near() -> Tensors:
        known = {name: network_name(name) for name in case.names if network_name(name) in task.weights}
        return {
            name: initial(own) if own in task.network.buffers else _near(initial(own), draw)
            for name, own in known.items()
        }

    tensors = near()
    inputs = _values((count, *shape), dtype, _embedded(task.module), draw).to(task.device)
    inputs = _double(inputs) if wide else inputs
    with torch.no_grad():
        task.evaluate_()
        outputs = task.outputs({name: initial(name).clone() for name in task.weights}, inputs[:BATCH])
    classes = min(outputs.shape[1:], default=2)
    targets = _values((count, *target_shape), target_dtype, classes, draw).to(task.device)
    samples = Samples(inputs, _double(targets) if wide else targets)
    client = Client(
        id=0,
        task=task,
        train=samples,
        validation=samples.take(slice(0)),
        batching=Batching(BATCH),
        initial=tensors,
        received=near() if phase.penalty else tensors,
        purpose="verification",
    )
    return client, tensors


def _near(tensor: Tensor, draw: torch.Generator) -> Tensor:
    """Zeros and ones are moved too: they would hide what is multiplied with them."""
    spread = float(tensor.std()) if tensor.numel() > 1 else 0.0
    count = tensor.numel()
    noise = torch.randn(min(count, 4093), generator=draw).to(tensor).repeat(-(-count // 4093))[:count]
    return tensor + (0.1 * spread or 0.01) * noise.view(tensor.shape)


def _values(shape: tuple[int, ...], dtype: torch.dtype, limit: int, draw: torch.Generator) -> Tensor:
    if dtype.is_floating_point:
        return torch.rand(shape, generator=draw).to(dtype)
    if dtype == torch.bool:
        return torch.rand(shape, generator=draw) < 0.5
    return torch.randint(limit, shape, generator=draw).to(dtype)


def _embedded(module: nn.Module) -> int:
    """An upper bound for token numbers that every embedding accepts; small, so that some tokens occur several times."""
    sizes = [part.num_embeddings for part in module.modules() if isinstance(part, nn.Embedding | nn.EmbeddingBag)]
    return min([16, *sizes]) if sizes else 2


def _difference(found: Tensors, expected: Tensors, before: Tensors) -> str | None:
    """The tensor in which two results differ by more than rounding, relative to how far the tensors have moved."""
    if list(found) != list(expected):
        return f"the results are {', '.join(found)} instead of {', '.join(expected)}"
    moved = {name: _distance(value, before[name]) for name, value in expected.items() if name in before}
    farthest = max(moved.values(), default=0.0)
    for name, value in expected.items():
        eps = torch.finfo(value.dtype).eps if value.is_floating_point() else 0.0
        size = float(value.double().norm())
        rounding = 4 * eps**0.5 * (moved.get(name, size) + farthest / 10) + 32 * eps * size
        distance = _distance(found[name], value)
        # Not the other way round: the distance may be no number.
        if not distance <= rounding:
            return f"{name} differs by {distance:.1e}, where rounding explains {rounding:.1e}"
    return None


def _distance(one: Tensor, other: Tensor) -> float:
    return float((one.double() - other.double()).norm())


def _never(losses: list[float]) -> bool:
    return False


def _unchanged(name: str, tensor: Tensor) -> Tensor:
    return tensor


def _training_samples(client: Client) -> Samples:
    return client.train


def _penalty(trained: Tensors, client: Client) -> Tensor:
    return 0.01 * torch.stack([tensor.square().sum() for tensor in trained.values()]).sum()
