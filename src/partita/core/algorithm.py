"""What is an algorithm? A frozen record of choices, and the three functions that interpret it."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from ..errors import PartitaError
from ..randomness import Moment
from ..tensors import Tensors, network_name, only
from .client import Client
from .network import Network
from .phases import Phase, Stage
from .selectors import DECIDED, MARK, NETWORK, Selector
from .server import Aggregation, Server, Update, in_order
from .signatures import Share, check_fields
from .task import Task
from .views import PLAIN, View

RunPhase = Callable[[Phase, Sequence[Client], Sequence[Tensors]], list[Tensors]]


def weights_of_task(client: Client) -> Tensors:
    """The initial weights of the network."""
    return client.task.weights


def received_replaces_own(tensors: Tensors, client: Client) -> Tensors:
    """Received tensors replace those of the client, except tensors that `DECIDED` keeps on the client."""
    decided = DECIDED(client.task.network, frozenset(client.received))
    return tensors | client.received | only(client.own, decided)


def all_that_is_shared(before: Tensors, after: Tensors, client: Client) -> tuple[Tensors, Tensors | None]:
    """Upload every shared tensor completely."""
    return after, None


@dataclass(frozen=True)
class Refinement:
    """Training on the server after each aggregation, on a sample of all training data."""

    fraction: Share
    phases: tuple[Phase, ...]

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True)
class Algorithm:
    """A client holds named tensors. In a round it starts, runs phases and uploads; before use it fine-tunes."""

    name: str = "unnamed"
    settings: Mapping[str, object] = field(default_factory=dict, compare=False)
    """The arguments of the function that made it, so that it can be made again elsewhere."""
    made_by: str = field(default="", compare=False)
    """The path of that function, as `module:function`."""
    shared: Selector = NETWORK
    """The tensors that are sent. All others stay on the client."""
    keep: Selector | None = None
    """What a client keeps between rounds, of the tensors that `expand` makes: by default what is not shared."""
    personal: Selector | None = None
    """The part of the network that is meant to be personal."""
    mixed: Selector | None = None
    """The part of the network in which the method itself mixes own and received weights before training."""
    expand: Callable[[Client], Tensors] = weights_of_task
    """All tensors that a client holds before its first round."""
    start: Callable[[Tensors, Client], Tensors] = received_replaces_own
    phases: tuple[Stage, ...] = ()
    absent: tuple[Stage, ...] = ()
    """The phases of clients that do not take part in a round, for methods that train them too."""
    finetune: tuple[Stage, ...] = ()
    upload: Callable[[Tensors, Tensors, Client], tuple[Tensors, Tensors | None]] = all_that_is_shared
    """Takes the tensors before and after the phases; returns values to send and a mask. Only shared ones are sent."""
    weight: Callable[[Tensors, Tensors, Client], float] | None = None
    """Takes the same tensors; returns the client's weight in a mean, for `averaging(weights="uploaded")`."""
    decide: Callable[[Tensors, Sequence[Update], Moment, Network], Collection[str] | None] | None = None
    """Takes the server's state before a round and its updates; returns the tensors that `DECIDED` selects.

    The choice is kept in the server's state and downloaded with it; None leaves it as it is.
    """
    view: View = PLAIN
    predict: Callable[[Tensors, Tensor, Client], Tensor] | None = None
    """How the client's model makes predictions, if not by the network with the view's weights."""
    server: Server = field(default_factory=Aggregation)
    refinement: Refinement | None = None

    @property
    def sees_single_models(self) -> bool:
        """Whether the server uses single clients' updates, so that secure aggregation does not apply."""
        return self.server.sees_single_models or self.decide is not None

    @property
    def label(self) -> str:
        """The name, with what it is built on: `flayer on fedper`."""
        on = self.settings.get("on")
        return f"{self.name} on {on.label}" if isinstance(on, Algorithm) else self.name

    def outputs(self, tensors: Tensors, inputs: Tensor, client: Client) -> Tensor:
        if self.predict:
            return self.predict(tensors, inputs, client)
        return client.task.outputs(self.view.weights(tensors, client.task.network), inputs)


def with_server(algorithm: Algorithm, server: Server) -> Algorithm:
    """An averaging algorithm with another server."""
    if not isinstance(algorithm.server, Aggregation):
        raise PartitaError(
            f"{algorithm.label} has a server of its own ({type(algorithm.server).__name__}), which cannot be replaced. "
            "Leave the server as it is, or choose a method that averages, such as fedavg, fedper or fedrep."
        )
    return replace(algorithm, server=server)


@dataclass(frozen=True)
class Trained:
    """A client's result of a round: its new state, its update, and its tensors right after training."""

    own: Tensors
    update: Update
    tensors: Tensors


def shared_names(algorithm: Algorithm, task: Task, names: Iterable[str]) -> frozenset[str]:
    """The names that are sent: no counters, no frozen tensors, and running statistics only if the task shares them."""
    network = task.network
    at_home = network.frozen | (network.buffers if task.buffers == "local" else network.counters)
    universe = frozenset(names)
    return frozenset(n for n in algorithm.shared(network, universe) if network_name(n) not in at_home)


def kept_names(algorithm: Algorithm, task: Task, names: Iterable[str]) -> frozenset[str]:
    """The names that a client keeps between rounds. The counter of a shared layer is reset in every round."""
    universe = frozenset(names)
    kept = (~algorithm.shared if algorithm.keep is None else algorithm.keep)(task.network, universe)
    kept |= universe & task.network.buffers if task.buffers == "local" else frozenset()
    return frozenset(name for name in kept if network_name(name) not in task.network.frozen)


def initial_state(algorithm: Algorithm, client: Client, sizes: Sequence[int]) -> Tensors:
    """The server's state before the first round; `client` is any client before its first round."""
    tensors = algorithm.expand(client)
    shared = only(tensors, shared_names(algorithm, client.task, tensors))
    state = algorithm.server.init({name: tensor.cpu() for name, tensor in shared.items()}, sizes)
    if algorithm.refinement and not shared.keys() <= state.keys():
        raise PartitaError(
            f"{algorithm.label}: the server is to train, but it keeps no model that is the same for all clients. "
            "Choose a method that averages, such as fedavg, fedper or fedbabu."
        )
    return state


def enter(algorithm: Algorithm, client: Client) -> Client:
    """The client with the initial tensors that the algorithm gives every client."""
    return replace(client, initial=client.task.place(algorithm.expand(client)))


def begin(algorithm: Algorithm, client: Client) -> Tensors:
    """A client's tensors at the start of a round or before fine-tuning."""
    entered = client if client.initial else enter(algorithm, client)
    return algorithm.start(entered.initial | entered.own, entered)


def client_round(algorithm: Algorithm, clients: Sequence[Client], run_phase: RunPhase) -> list[Trained]:
    """One round of each client: start, train, upload, keep."""
    clients = [enter(algorithm, client) for client in clients]
    before = [begin(algorithm, client) for client in clients]
    after = _run(algorithm.phases, clients, before, run_phase)
    return [_finish(algorithm, *each) for each in zip(clients, before, after, strict=True)]


def absent_round(algorithm: Algorithm, clients: Sequence[Client], run_phase: RunPhase) -> list[Tensors]:
    """Each client's state after a round in which it does not take part."""
    clients = [enter(algorithm, client) for client in clients]
    after = _run(algorithm.absent, clients, [begin(algorithm, client) for client in clients], run_phase)
    return [_kept(algorithm, *each) for each in zip(clients, after, strict=True)]


def server_round(
    algorithm: Algorithm,
    state: Tensors,
    updates: Sequence[Update],
    moment: Moment,
    own: Client,
    run_phase: RunPhase,
) -> Tensors:
    """The server's state after the updates of a round; `own` holds the server's data, for its own phases."""
    network = own.task.network
    decided = algorithm.decide(state, in_order(updates), moment, network) if algorithm.decide else None
    state = algorithm.server.aggregate(state, updates, moment, network)
    if decided is not None:
        state = _marked(algorithm, state, decided, network)
    if algorithm.refinement:
        received = own.task.place(algorithm.server.download(state, own.id, moment))
        holder = enter(algorithm, replace(own, received=received, moment=moment))
        [refined] = _run(algorithm.refinement.phases, [holder], [begin(algorithm, holder)], run_phase)
        learned = only(refined, shared_names(algorithm, own.task, refined))
        state = state | {name: tensor.cpu() for name, tensor in learned.items()}
    return state


def _marked(algorithm: Algorithm, state: Tensors, decided: Collection[str], network: Network) -> Tensors:
    if unknown := [name for name in decided if name not in network.names]:
        raise PartitaError(
            f"{algorithm.label} decides on {unknown[0]!r}, which is no tensor of the network. Its tensors: "
            f"{', '.join(network.names)}."
        )
    unmarked = {name: tensor for name, tensor in state.items() if not name.startswith(MARK)}
    return unmarked | {MARK + name: torch.zeros(0) for name in network.names if name in decided}


def personalize(algorithm: Algorithm, clients: Sequence[Client], run_phase: RunPhase) -> list[Tensors]:
    """The tensors that each client's model is used with. The clients' states are not changed."""
    clients = [enter(algorithm, replace(client, purpose="finetune")) for client in clients]
    return _run(algorithm.finetune, clients, [begin(algorithm, client) for client in clients], run_phase)


def _run(
    stages: Sequence[Stage], clients: Sequence[Client], tensors: list[Tensors], run_phase: RunPhase
) -> list[Tensors]:
    for stage in stages:
        if isinstance(stage, Phase):
            tensors = run_phase(stage, clients, tensors)
        else:
            tensors = [stage(own, client) for own, client in zip(tensors, clients, strict=True)]
    return tensors


def _finish(algorithm: Algorithm, client: Client, before: Tensors, after: Tensors) -> Trained:
    shared = shared_names(algorithm, client.task, after)
    values, mask = algorithm.upload(before, after, client)
    values = only(values, shared)
    if mask is not None:
        mask = only(mask, values)
    update = Update(
        client=client.id,
        values=values,
        samples=len(client.train),
        batches=client.batches_per_epoch(len(client.train)),
        mask=mask,
        weight=algorithm.weight(before, after, client) if algorithm.weight else None,
        name=client.name,
    )
    return Trained(own=_kept(algorithm, client, after), update=update, tensors=after)


def _kept(algorithm: Algorithm, client: Client, after: Tensors) -> Tensors:
    return only(only(after, client.initial), kept_names(algorithm, client.task, after))
