"""Dropout between LSTM layers, and layouts that are refused before training."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from ivqa.errors import UserError
from ivqa.vqa import LSTMQI, N2NMN

CHOSEN = {"modules": ["_Find", "_Describe"], "max_layout": 3, "search_after": None}


@pytest.mark.parametrize(("layers", "expected"), [(1, 0.0), (2, 0.25), (3, 0.25)])
def test_dropout_is_between_the_layers_of_the_lstm(layers: int, expected: float) -> None:
    network = LSTMQI(
        num_words=9, num_answers=2, feature_sizes={"grid": 3}, num_layers=layers, dropout=0.25
    )
    assert network.lstm.dropout == expected


def _split(**layouts: list[str]) -> Any:
    numbered = {int(name[1:]): layout for name, layout in layouts.items()}
    ids = torch.tensor([1, 2])
    return SimpleNamespace(name="val", question_ids=ids, layouts=numbered or None)


def test_modules_without_a_layout_are_refused() -> None:
    N2NMN.check_arguments({"modules": ("_Find", "_Describe")})
    for modules in (["_Find"], ["_Find", "_Describe", "_Guess"]):
        with pytest.raises(UserError, match="must hold an answer module"):
            N2NMN.check_arguments({"modules": modules})


def test_layouts_are_checked_against_the_modules_and_the_steps() -> None:
    whole = ["_Find", "_Describe"]
    N2NMN.check_split(CHOSEN, _split(q1=whole, q2=whole), learns=True)  # with <eos> three steps
    wrong = [
        (CHOSEN | {"max_layout": 2}, _split(q1=whole, q2=whole), "question 1.* no room in 2"),
        (CHOSEN, _split(q1=whole, q2=["_Find", "_Exist"]), "question 2.*uses _Exist"),
        (CHOSEN, _split(q1=whole), r"no layout for question 2 \(1 in"),
        (CHOSEN, _split(q1=whole, q2=["_Find"]), "question 2.*reverse Polish"),
    ]
    for arguments, split, message in wrong:
        with pytest.raises(UserError, match=message):
            N2NMN.check_split(arguments, split, learns=True)


def test_layouts_are_needed_only_to_clone_them() -> None:
    with pytest.raises(UserError, match="these data have none"):
        N2NMN.check_split(CHOSEN, _split(), learns=True)
    N2NMN.check_split(CHOSEN, _split(), learns=False)
    N2NMN.check_split(CHOSEN | {"search_after": 0}, _split(), learns=True)
