"""Small generators of every kind."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from toy_generators import ANSWER_WORDS, FEATURE_SIZES, NETWORKS, QUESTION_WORDS, enlarge

from ivqa.generators import GeneratorModule, QuestionGenerator
from ivqa.text.vocabulary import Vocabulary


@pytest.fixture(params=NETWORKS)
def network_factory(request: pytest.FixtureRequest) -> Callable[..., QuestionGenerator]:
    """Each generator of the package, small."""
    return partial(NETWORKS[request.param], embedding_size=7, hidden_size=9, dropout=0.3)


@pytest.fixture
def variational_factory() -> Callable[..., QuestionGenerator]:
    sizes = {"embedding_size": 7, "hidden_size": 9, "dropout": 0.3}
    return partial(NETWORKS["variational"], feed_condition=True, **sizes)


@pytest.fixture
def question_vocabulary() -> Vocabulary:
    return Vocabulary(QUESTION_WORDS)


@pytest.fixture
def build_module(question_vocabulary: Vocabulary) -> Callable[..., GeneratorModule]:
    """A module around a network factory, with weights large enough for z and I to matter."""

    def build(network: Callable[..., QuestionGenerator], **arguments: Any) -> Any:
        settings: dict[str, Any] = {
            "question_vocabulary": question_vocabulary,
            "answer_words": Vocabulary(ANSWER_WORDS),
            "feature_sizes": FEATURE_SIZES,
            "optimizer": partial(torch.optim.Adam, lr=0.01),
            "max_length": 6,
        }
        module = GeneratorModule(network=network, **settings | arguments)
        enlarge(module)
        return module

    return build
