"""Every method by discovery, and compositions of methods: what laws are about."""

from dataclasses import replace

from partita import registry
from partita.algorithms.ditto import ditto
from partita.algorithms.fedala import fedala
from partita.algorithms.fedalt import fedalt
from partita.algorithms.fedamp import fedamp
from partita.algorithms.fedavg import fedavg
from partita.algorithms.fedbabu import fedbabu
from partita.algorithms.fedper import fedper
from partita.algorithms.fedprox import fedprox
from partita.algorithms.fedrep import fedrep
from partita.algorithms.fedsim import fedsim
from partita.algorithms.finetune import finetune
from partita.algorithms.flayer import flayer
from partita.algorithms.pfedme import pfedme
from partita.algorithms.server_update import server_update
from partita.core.algorithm import Algorithm, enter
from partita.core.batching import Batching
from partita.core.client import Client
from partita.core.optimizers import SGD, Optimizer, adagrad, adam, yogi
from partita.core.phases import Phase, Stage
from partita.core.selectors import BODY, INPUT, NETWORK
from partita.data.federation import Federation
from partita.experiment.result import Result
from partita.randomness import Moment
from partita.servers.averaging import averaging

SERVER_OPTIMIZERS: dict[str, Optimizer] = {
    "adam": adam(0.01),
    "yogi": yogi(0.01),
    "adagrad": adagrad(0.01),
    "momentum": SGD(1.0, momentum=0.9),
}
AS_MADE: dict[str, Algorithm] = {
    **{name: registry.get("algorithms", name)() for name in registry.names("algorithms")},
    **{f"flayer({on.name})": flayer(on=on) for on in (fedavg(), fedper(), fedrep(), ditto(), fedamp(), fedala())},
    "flayer official": flayer(variant="official"),
    "fedprox(fedbabu)": fedprox(on=fedbabu()),
    "finetune(fedper)": finetune(on=fedper()),
    "server_update(fedbabu)": server_update(on=fedbabu(), fraction=0.5, part=BODY),
    "server_update(fedbabu) network": server_update(on=fedbabu(), fraction=0.5, part=NETWORK),
    "fedalt stateless": fedalt(stateful=False),
    "fedsim input": fedsim(personal=INPUT),
    "pfedme carry_theta": pfedme(carry_theta=True),
    "fedrep switched": fedrep(switched=True),
    **{
        f"{algorithm.name} server {kind}": replace(algorithm, server=averaging(optimizer=optimizer))
        for algorithm in (fedavg(), flayer())
        for kind, optimizer in SERVER_OPTIMIZERS.items()
    },
}


def brief(algorithm: Algorithm) -> Algorithm:
    """The same method with phases of at most 2 epochs or 4 steps: laws do not depend on lengths, waiting does."""

    def cut(stage: Stage) -> Stage:
        if not isinstance(stage, Phase):
            return stage
        epochs, steps = stage.epochs, stage.steps
        return replace(
            stage,
            epochs=min(epochs, 2) if isinstance(epochs, int) else epochs,
            steps=None if steps is None else min(steps, 4),
        )

    return replace(algorithm, phases=tuple(map(cut, algorithm.phases)), finetune=tuple(map(cut, algorithm.finetune)))


ALGORITHMS = {name: brief(algorithm) for name, algorithm in AS_MADE.items()}


def clients_after(
    result: Result, algorithm: Algorithm, data: Federation, moment: Moment, batching: Batching
) -> list[Client]:
    """All clients at the start of the round after a result."""
    return [
        enter(
            algorithm,
            Client(
                number,
                result.task,
                data[number].train,
                data[number].validation,
                moment,
                batching,
                own=result.own.get(number, {}),
                received=algorithm.server.download(result.state, number, moment),
            ),
        )
        for number in range(len(data))
    ]
