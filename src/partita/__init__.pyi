import typing

from .core.algorithm import (
    Algorithm as Algorithm,
    client_round as client_round,
    personalize as personalize,
    server_round as server_round,
    with_server as with_server,
)
from .core.batching import Batching as Batching
from .core.client import Client as Client
from .core.optimizers import SGD as SGD, adagrad as adagrad, adam as adam, yogi as yogi
from .core.penalties import Proximal as Proximal
from .core.phases import Phase as Phase
from .core.samples import Samples as Samples
from .core.schedules import (
    CONSTANT as CONSTANT,
    decay as decay,
    exponential as exponential,
    linear as linear,
    step as step,
)
from .core.selectors import (
    BODY as BODY,
    DECIDED as DECIDED,
    EVERYTHING as EVERYTHING,
    HEAD as HEAD,
    INPUT as INPUT,
    NETWORK as NETWORK,
    NORM as NORM,
    NOTHING as NOTHING,
    WEIGHTS as WEIGHTS,
    Selector as Selector,
    below as below,
    first_blocks as first_blocks,
    group as group,
    last_blocks as last_blocks,
    last_tensors as last_tensors,
    of_type as of_type,
    satisfying as satisfying,
    where as where,
)
from .core.server import Aggregation as Aggregation, Server as Server, Update as Update
from .core.task import Task as Task
from .core.views import PLAIN as PLAIN, View as View
from .data.datasets import from_dataset as from_dataset
from .data.federation import ClientData as ClientData, Federation as Federation, federate as federate
from .data.pool import Pool as Pool
from .errors import DegenerateWarning as DegenerateWarning, DivergedError as DivergedError, PartitaError as PartitaError
from .evaluation.scores import Record as Record, Summary as Summary
from .experiment.experiment import Experiment as Experiment
from .models._adapters import with_adapters as with_adapters
from .signatures import configurable as configurable
from .simulation.result import Result as Result
from .simulation.simulate import simulate as simulate

__version__: str

def __getattr__(name: str) -> typing.Any: ...
