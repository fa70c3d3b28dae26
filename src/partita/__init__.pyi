from .algorithms.apfl import apfl as apfl
from .algorithms.apple import apple as apple
from .algorithms.ditto import ditto as ditto
from .algorithms.ditto_finetune import ditto_finetune as ditto_finetune
from .algorithms.fedala import fedala as fedala
from .algorithms.fedalt import fedalt as fedalt
from .algorithms.fedamp import fedamp as fedamp
from .algorithms.fedavg import fedavg as fedavg
from .algorithms.fedbabu import fedbabu as fedbabu
from .algorithms.fedbn import fedbn as fedbn
from .algorithms.fedcp import fedcp as fedcp
from .algorithms.fedper import fedper as fedper
from .algorithms.fedprox import fedprox as fedprox
from .algorithms.fedrep import fedrep as fedrep
from .algorithms.fedsim import fedsim as fedsim
from .algorithms.finetune import finetune as finetune
from .algorithms.flayer import flayer as flayer
from .algorithms.gpfl import gpfl as gpfl
from .algorithms.lg_fedavg import lg_fedavg as lg_fedavg
from .algorithms.local import local as local
from .algorithms.per_fedavg import per_fedavg as per_fedavg
from .algorithms.pfedme import pfedme as pfedme
from .algorithms.scaffold import scaffold as scaffold
from .algorithms.server_update import server_update as server_update
from .api.kept import Run as Run, open as open
from .api.run import run as run
from .api.seeds import Runs as Runs, compare as compare
from .core.algorithm import (
    Algorithm as Algorithm,
    client_round as client_round,
    personalize as personalize,
    server_round as server_round,
    with_server as with_server,
)
from .core.batching import Batching as Batching
from .core.client import Client as Client
from .core.optimizers import SGD as SGD, Optimizer as Optimizer, adagrad as adagrad, adam as adam, yogi as yogi
from .core.penalties import Proximal as Proximal
from .core.phases import Phase as Phase
from .core.samples import Samples as Samples
from .core.schedules import Schedule as Schedule
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
    first_blocks as first_blocks,
    last_blocks as last_blocks,
    last_tensors as last_tensors,
    of_type as of_type,
    satisfying as satisfying,
    where as where,
)
from .core.server import Aggregation as Aggregation, Server as Server, Update as Update
from .core.signatures import configurable as configurable
from .core.task import Task as Task
from .core.views import View as View
from .data.clients import from_clients as from_clients
from .data.datasets import from_dataset as from_dataset
from .data.federation import ClientData as ClientData, Federation as Federation, federate as federate
from .data.pool import Pool as Pool
from .data.sources.ag_news import ag_news as ag_news
from .data.sources.cifar10 import cifar10 as cifar10
from .data.sources.cifar100 import cifar100 as cifar100
from .data.sources.csv_text import csv_text as csv_text
from .data.sources.digits import digits as digits
from .data.sources.emnist import emnist as emnist
from .data.sources.femnist import femnist as femnist
from .data.sources.flbench import flbench as flbench
from .data.sources.flickr_aes import flickr_aes as flickr_aes
from .data.sources.folder import folder as folder
from .data.sources.gldv2 import gldv2 as gldv2
from .data.sources.hapt import hapt as hapt
from .data.sources.huggingface import huggingface as huggingface
from .data.sources.mnist import mnist as mnist
from .data.sources.mnist_writers import mnist_writers as mnist_writers
from .data.sources.movielens import movielens as movielens
from .data.sources.npz import npz as npz
from .data.sources.personal_digits import personal_digits as personal_digits
from .data.sources.pfllib import pfllib as pfllib
from .data.sources.shakespeare import shakespeare as shakespeare
from .data.sources.stackoverflow import stackoverflow as stackoverflow
from .data.sources.tiny_imagenet import tiny_imagenet as tiny_imagenet
from .data.split import Split as Split
from .data.splits.dirichlet import dirichlet as dirichlet
from .data.splits.dirichlet_matched import dirichlet_matched as dirichlet_matched
from .data.splits.flwr import flwr as flwr
from .data.splits.iid import iid as iid
from .data.splits.k_classes import k_classes as k_classes
from .data.splits.manifest import manifest as manifest
from .data.splits.natural import natural as natural
from .data.splits.quantity import quantity as quantity
from .data.splits.shards import shards as shards
from .errors import DegenerateWarning as DegenerateWarning, DivergedError as DivergedError, PartitaError as PartitaError
from .evaluation.analyses.embedding import embedding as embedding
from .evaluation.analyses.finetuning import finetuning as finetuning
from .evaluation.analyses.floor import floor as floor
from .evaluation.analyses.guard import guard as guard
from .evaluation.analyses.inside_outside import inside_outside as inside_outside
from .evaluation.analyses.labels import labels as labels
from .evaluation.analyses.network import network as network
from .evaluation.analyses.onboarding import onboarding as onboarding
from .evaluation.analyses.similarity import similarity as similarity
from .evaluation.analyses.training import training as training
from .evaluation.analyses.without_head import without_head as without_head
from .evaluation.analysis import Analysis as Analysis
from .evaluation.prediction.model import ClientModel as ClientModel, Prediction as Prediction
from .evaluation.scores import Record as Record, Summary as Summary
from .experiment.events import Event as Event, RoundEnded as RoundEnded
from .experiment.executor import Executor as Executor
from .experiment.executors.inline import inline as inline
from .experiment.executors.processes import processes as processes
from .experiment.executors.ray import ray as ray
from .experiment.experiment import Experiment as Experiment
from .experiment.result import Result as Result
from .experiment.samplers import Sampler as Sampler
from .experiment.simulate import simulate as simulate
from .models._adapters import with_adapters as with_adapters
from .models._logits import Logits as Logits
from .models.additive import additive as additive
from .models.cnn4 import cnn4 as cnn4
from .models.convnet3 import convnet3 as convnet3
from .models.convnet4 import convnet4 as convnet4
from .models.emnist_convnet import emnist_convnet as emnist_convnet
from .models.fasttext import fasttext as fasttext
from .models.har_convnet import har_convnet as har_convnet
from .models.linear_base import linear_base as linear_base
from .models.logistic import logistic as logistic
from .models.mlp import mlp as mlp
from .models.mobilenet import mobilenet as mobilenet
from .models.recommender import recommender as recommender
from .models.resnet10 import resnet10 as resnet10
from .models.resnet18 import resnet18 as resnet18
from .models.resnet18_gn import resnet18_gn as resnet18_gn
from .models.resnet34 import resnet34 as resnet34
from .models.resnet50 import resnet50 as resnet50
from .models.split_input import split_input as split_input
from .models.word_transformer import word_transformer as word_transformer
from .randomness import Moment as Moment
from .servers.averaging import averaging as averaging
from .servers.geometric_median import geometric_median as geometric_median
from .servers.median import median as median
from .servers.trimmed_mean import trimmed_mean as trimmed_mean
from .serving.artefact import Artefact as Artefact, load_exported as load_exported
from .serving.loaded import LoadedRun as LoadedRun, load as load
from .tensors import Tensors as Tensors

__all__: list[str]
__version__: str
