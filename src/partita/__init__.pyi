import typing

from .algorithm import (
    Algorithm as Algorithm,
)
from .algorithm import (
    client_round as client_round,
)
from .algorithm import (
    method as method,
)
from .algorithm import (
    personalize as personalize,
)
from .algorithm import (
    server_round as server_round,
)
from .batching import Batching as Batching
from .client import Client as Client
from .errors import DegenerateWarning as DegenerateWarning
from .errors import DivergedError as DivergedError
from .errors import PartitaError as PartitaError
from .evaluation import Record as Record
from .evaluation import Summary as Summary
from .experiment import Experiment as Experiment
from .federation import ClientData as ClientData
from .federation import Federation as Federation
from .optimizers import SGD as SGD
from .optimizers import adagrad as adagrad
from .optimizers import adam as adam
from .optimizers import yogi as yogi
from .penalties import Proximal as Proximal
from .phases import Phase as Phase
from .samples import Samples as Samples
from .schedules import CONSTANT as CONSTANT
from .schedules import decay as decay
from .schedules import exponential as exponential
from .schedules import linear as linear
from .schedules import step as step
from .selectors import (
    BODY as BODY,
)
from .selectors import (
    EVERYTHING as EVERYTHING,
)
from .selectors import (
    HEAD as HEAD,
)
from .selectors import (
    INPUT as INPUT,
)
from .selectors import (
    NETWORK as NETWORK,
)
from .selectors import (
    NORM as NORM,
)
from .selectors import (
    NOTHING as NOTHING,
)
from .selectors import (
    WEIGHTS as WEIGHTS,
)
from .selectors import (
    Selector as Selector,
)
from .selectors import (
    below as below,
)
from .selectors import (
    first_blocks as first_blocks,
)
from .selectors import (
    group as group,
)
from .selectors import (
    last_blocks as last_blocks,
)
from .selectors import (
    last_tensors as last_tensors,
)
from .selectors import (
    of_type as of_type,
)
from .selectors import (
    satisfying as satisfying,
)
from .selectors import (
    where as where,
)
from .server import Averaging as Averaging
from .server import Update as Update
from .simulation import Result as Result
from .simulation import simulate as simulate
from .task import Task as Task
from .views import PLAIN as PLAIN
from .views import View as View

__version__: str

def __getattr__(name: str) -> typing.Any: ...
