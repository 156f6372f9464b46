"""The names that people use for the models that come with ivqa."""

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
