"""The names that people use for models."""

from pathlib import PurePath

from omegaconf import DictConfig

_TITLES = {
    "hf_blip": "BLIP",
    "hiecoatt": "HieCoAtt",
    "language_only": "the language-only model",
    "lstm_qi": "LSTM Q+I",
    "mcb": "MCB",
    "mlb": "MLB",
    "mlb2": "MLB2",
    "mutan": "MUTAN",
    "mutan_noatt": "MUTAN without attention",
    "n2nmn": "N2NMN",
    "prior": "the most frequent answer",
    "vanilla": "Vanilla VQA",
}


def title_of(name: str) -> str:
    """The name of a model of `conf/model` in its paper; any other name as it is.

    >>> title_of("mlb"), title_of("my_model")
    ('MLB', 'my_model')
    """
    return _TITLES.get(name, name)


def title_in(model: DictConfig) -> str:
    """The title of a model of a configuration; one that `path` names is called by that name."""
    path = model.get("path")
    return title_of(str(model.name)) if path is None else PurePath(str(path)).name
