"""The demonstration: seven methods on digits, with the same network, split, local work and rounds."""

from collections.abc import Callable

from .algorithm import Algorithm
from .algorithms.fedalt import fedalt
from .algorithms.fedavg import fedavg
from .algorithms.fedbabu import fedbabu
from .algorithms.fedper import fedper
from .algorithms.finetune import finetune
from .algorithms.flayer import flayer
from .algorithms.local import local
from .data.digits import digits
from .federation import federate
from .models.mlp import mlp
from .optimizers import SGD
from .result import Progress, Result
from .simulation import simulate

RATE = SGD(0.1)
METHODS: dict[str, Callable[[], Algorithm]] = {
    "local": lambda: local(optimizer=RATE),
    "fedavg": lambda: fedavg(optimizer=RATE),
    "fedavg + fine-tune": lambda: finetune(on=fedavg(optimizer=RATE), optimizer=RATE),
    "fedper": lambda: fedper(epochs=1, optimizer=RATE),
    "fedbabu": lambda: fedbabu(epochs=1, optimizer=RATE, finetune_optimizer=RATE),
    "fedalt": lambda: fedalt(optimizer=RATE),
    "flayer": lambda: flayer(on=fedavg(optimizer=RATE)),
}


def run_method(name: str, *, rounds: int, seed: int, on_round: Callable[[Progress], None] | None = None) -> Result:
    """One of the seven, on digits divided by Dirichlet(0.1) among 20 clients."""
    return simulate(
        METHODS[name](),
        mlp,
        federate(digits(), seed=seed),
        rounds=rounds,
        seed=seed,
        evaluate_every=0,
        on_round=on_round,
    )
