"""What does the page of experiment files say? Every setting, with type, default and meaning."""

from collections.abc import Callable, Iterable
from typing import Any

from partita import registry
from partita.core.batching import Batching
from partita.core.optimizers import OPTIMIZERS
from partita.data.federation import federate
from partita.experiment.experiment import Experiment
from partita.experiment.settings.options import options_of
from partita.experiment.settings.schema import properties
from partita.experiment.settings.template import template

from .markdown import code, table

HEAD = """# Experiment files

An experiment file is TOML. `partita new mine.toml --algorithm fedalt` writes one in which every setting is explained;
`partita run mine.toml rounds=50 algorithm.optimizer.lr=0.05` runs it with two settings changed. Every setting is a
keyword argument of the function it is for, so that Python, files and the command line have the same names, types,
ranges and defaults. A setting that does not exist is an error that names the nearest one that does.

- A thing with a name is a text (`algorithm = "fedper"`), or a table with a name and options.
- A table without a name changes the default: `optimizer.lr = 0.05` keeps the method's momentum.
- `"none"` stands for no value.
- A selector names tensors: see [Selectors](../selectors.md).
- `package.module:function` names something of your own. In a file it needs `--trust`, because it runs code.

## In an editor

`partita schema --output partita.schema.json` writes a JSON schema, with which an editor completes and checks settings
as you type. With the extension Even Better TOML of VS Code, or any editor that uses Taplo, make this the first line of
the file:

    #:schema partita.schema.json

The schema contains your installed plugins. It is also [here](experiment.schema.json), without plugins.
"""
KINDS: tuple[tuple[str, registry.Kind, str], ...] = (
    ("Servers", "servers", "`[server]`: how the server aggregates, in place of the method's own way."),
    ("Networks", "models", "`[model]`. The shape of an input and the number of classes come from the data."),
    ("Data sources", "data", "`[data]`, beside the settings of the division."),
    ("Splits", "splits", "`[data.split]`. Without it: the clients that the data name, or 20 by Dirichlet(0.1)."),
)


def page() -> str:
    parts = [HEAD, "## The experiment\n", _table([("", Experiment)], "experiment")]
    parts += ["## Methods\n\n`[algorithm]`. Each method has [its own page](../methods/index.md) with its options.\n"]
    parts += ['## Optimizers\n\n`optimizer = { name = "sgd", lr = 0.1 }` of a method or a server.\n']
    parts += [_table(OPTIMIZERS.items(), "optimizer"), "## Batches\n\n`batching`; a number alone is the size.\n"]
    parts += [_table([("", Batching)], "batching")]
    parts += ["## The division of data\n\n`[data]`, beside the options of the source.\n"]
    parts += [_table([("", federate)], "division")]
    for title, kind, text in KINDS:
        made = [(name, registry.get(kind, name)) for name in registry.built_in(kind)]
        parts += [f"## {title}\n\n{text}\n", _table(made, kind)]
    example = template("fedper", "mlp", "digits", file="experiment.toml")
    return "\n".join([*parts, "## A whole file\n\nAs `partita new` writes it:\n", f"```toml\n{example}```\n"])


def _table(made: Iterable[tuple[str, Callable[..., Any]]], kind: str) -> str:
    """One row for each setting that a file can give; of several functions, with their names."""
    rows = []
    for name, make in made:
        known = properties(make, kind)
        options = [each for each in options_of(make, kind) if each.name in known]
        owner = code(name)
        if not options:
            rows.append((owner, "", "", "", _summary(make)))
        for each in options:
            rows.append((owner, code(each.name), each.type, code(each.default), each.meaning))
            owner = ""
    if all(not row[0] for row in rows):
        return table(("setting", "type", "default", "meaning"), [row[1:] for row in rows])
    return table(("name", "setting", "type", "default", "meaning"), rows)


def _summary(make: Callable[..., Any]) -> str:
    return registry.summary(make)
