"""A Hugging Face model with personal LoRA matrices and a shared classifier.

The model is tiny and random, so that the example runs anywhere. For real use:
AutoModelForSequenceClassification.from_pretrained("distilbert-base-uncased", num_labels=3).
"""

from typing import Any

import peft
import torch
import transformers

from partita import SGD, Logits, fedsim, from_clients, run, where

WORDS, LENGTH, LABELS = 60, 12, 3


def network() -> Logits:
    torch.manual_seed(0)
    config: Any = transformers.BertConfig(  # type: ignore[call-arg]
        vocab_size=WORDS,
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=64,
        num_labels=LABELS,
    )
    model = transformers.BertForSequenceClassification(config)  # type: ignore[no-untyped-call]
    lora = peft.LoraConfig(task_type="SEQ_CLS", r=4, lora_alpha=8, target_modules=["query", "value"])
    return Logits(peft.get_peft_model(model, lora))


def main() -> None:
    draw = torch.Generator().manual_seed(0)
    texts = {name: torch.randint(4, WORDS, (40, LENGTH), generator=draw) for name in ("anna", "ben", "cleo")}
    data = from_clients({name: (words, words[:, 0] % LABELS) for name, words in texts.items()}, indices=True)
    method = fedsim(personal=where("*lora_*"), optimizer=SGD(0.3))
    kept = run(method, network(), data, rounds=3, folder="runs/lora", baselines=False)
    print(f"test accuracy {100 * kept.score().macro:.1f} %")
    kept.export("models", formats=["peft"])
    print("models/peft has an adapter for each client, in PEFT's layout")


if __name__ == "__main__":
    main()
