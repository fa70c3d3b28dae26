"""A tiny transformer, randomly initialised, with LoRA as the personal part."""

import numpy as np
import pytest
import torch

from partita.algorithms.fedavg import fedavg
from partita.algorithms.fedsim import fedsim
from partita.core.optimizers import SGD
from partita.core.selectors import group
from partita.core.task import Task
from partita.data.federation import Federation, federate
from partita.data.pool import pool
from partita.data.splits.iid import iid
from partita.experiment.settings.describe import describe
from partita.experiment.simulate import simulate
from partita.models._logits import Logits

transformers = pytest.importorskip("transformers", reason="needs the extra hf", exc_type=ImportError)
peft = pytest.importorskip("peft", reason="needs the extra hf", exc_type=ImportError)

GROUPS: dict[str, str | tuple[str, ...]] = {"lora": "*lora_*", "head": ("*score*", "*classifier*")}


def tiny() -> Logits:
    torch.manual_seed(0)
    settings = transformers.BertConfig(
        vocab_size=50, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32,
        max_position_embeddings=12, num_labels=3, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    model = transformers.BertForSequenceClassification(settings)
    lora = peft.LoraConfig(task_type="SEQ_CLS", r=2, lora_alpha=4, target_modules=["query", "value"])
    return Logits(peft.get_peft_model(model, lora))


def sentences() -> Federation:
    draw = np.random.default_rng(0)
    tokens = draw.integers(4, 50, size=(120, 10))
    return federate(pool("sentences", tokens, tokens[:, 0] % 3, classes=3), iid(clients=4))


def test_only_lora_is_personal_and_the_frozen_base_does_not_travel() -> None:
    module = tiny()
    algorithm = fedsim(personal=group("lora"), optimizer=SGD(0.5))
    shown = describe(algorithm, Task(module, groups=GROUPS))
    travelling = {row.name for row in shown.rows if row.shared}
    kept = {row.name for row in shown.rows if row.kept}
    assert travelling
    assert all("classifier" in name or "score" in name for name in travelling)
    assert kept
    assert all("lora_" in name for name in kept)
    result = simulate(algorithm, module, sentences(), rounds=3, groups=GROUPS)
    moved = {
        name
        for name in kept
        if any(not torch.equal(result.own[client][name], result.task.weights[name]) for client in result.own)
    }
    assert any("lora_B" in name for name in moved)
    base = "model.base_model.model.bert.embeddings.word_embeddings.weight"
    assert torch.equal(result.network_weights()[base], module.state_dict()[base])


def test_a_model_with_adapters_shared() -> None:
    result = simulate(fedavg(optimizer=SGD(0.5)), tiny(), sentences(), rounds=2, groups=GROUPS)
    assert all("lora_" in name or "classifier" in name or "score" in name for name in result.state)
