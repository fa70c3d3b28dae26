import typing

from .adapters import with_adapters as with_adapters
from .algorithm import (
    Algorithm as Algorithm,
    client_round as client_round,
    method as method,
    personalize as personalize,
    server_round as server_round,
)
from .batching import Batching as Batching
from .client import Client as Client
from .datasets import from_dataset as from_dataset
from .errors import DegenerateWarning as DegenerateWarning, DivergedError as DivergedError, PartitaError as PartitaError
from .evaluation import Record as Record, Summary as Summary
from .experiment import Experiment as Experiment
from .federation import ClientData as ClientData, Federation as Federation, federate as federate
from .optimizers import SGD as SGD, adagrad as adagrad, adam as adam, yogi as yogi
from .penalties import Proximal as Proximal
from .phases import Phase as Phase
from .pool import Pool as Pool
from .result import Result as Result
from .samples import Samples as Samples
from .schedules import CONSTANT as CONSTANT, decay as decay, exponential as exponential, linear as linear, step as step
from .selectors import (
    BODY as BODY,
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
from .server import Averaging as Averaging, Update as Update
from .simulation import simulate as simulate
from .task import Task as Task
from .views import PLAIN as PLAIN, View as View

__version__: str

def __getattr__(name: str) -> typing.Any: ...
