"""What batches carry, and which questions are trained on, follows from the module."""

from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import open_dict
from rich.console import Console

from ivqa.answer_aware import DualModule
from ivqa.data import VQADataModule
from ivqa.generators import GeneratorModule, VariationalGenerator
from ivqa.runs.context import RunContext
from ivqa.runs.vocabularies import Vocabularies
from ivqa.text.answers import AnswerVocabulary
from ivqa.text.vocabulary import Vocabulary
from ivqa.vqa import MLB, N2NMN, VQAModule

CONF = Path(__file__).parents[2] / "conf"
WORDS = Vocabulary(["is", "it", "red"])
ANSWERS = AnswerVocabulary(["yes", "no"])
SIZES = {"grid": 4, "concepts": 3}
NETWORKS = {
    "n2nmn": partial(N2NMN, embedding_size=6, hidden_size=6, map_size=6, prior_size=6),
    "mlb": partial(MLB, joint_size=5),
}


def _data(module: Any, answers: AnswerVocabulary | None) -> VQADataModule:
    with initialize_config_dir(str(CONF), version_base="1.3"):
        cfg = compose("evaluate", ["model=ivqa_attention"])
    with open_dict(cfg):
        cfg.output_dir = "run"
    features: Any = SimpleNamespace(cache_key=lambda: "key", sizes=SIZES)
    context = RunContext(cfg, SimpleNamespace(), features, Console())  # type: ignore[arg-type]
    return context.datamodule(Vocabularies(WORDS, WORDS, answers), module)


def _dual(network: str) -> DualModule:
    return DualModule(
        network=partial(VariationalGenerator, embedding_size=6, hidden_size=6, latent_size=2),
        question_vocabulary=WORDS,
        answer_words=WORDS,
        feature_sizes=SIZES,
        answers=ANSWERS,
        answer_network=NETWORKS[network],
        answer_features=["grid"],
    )


@pytest.mark.parametrize("network", NETWORKS)
def test_a_dual_module_learns_all_questions_and_the_layouts_of_its_network(network: str) -> None:
    module = _dual(network)
    data = _data(module, ANSWERS)
    assert not data.batching.drop_unknown_answers
    assert data.contents.soft_targets
    assert data.contents.encode_layouts == module.answerer.network.encode_layouts
    assert (data.contents.encode_layouts is not None) == (network == "n2nmn")


@pytest.mark.parametrize("network", NETWORKS)
def test_a_vqa_model_drops_questions_with_other_answers(network: str) -> None:
    module = VQAModule(
        network=NETWORKS[network],
        question_vocabulary=WORDS,
        answers=ANSWERS,
        feature_sizes={"grid": 4},
    )
    data = _data(module, ANSWERS)
    assert data.batching.drop_unknown_answers
    assert (data.contents.encode_layouts is not None) == (network == "n2nmn")


def test_a_generator_has_no_closed_set() -> None:
    module = GeneratorModule(
        network=partial(VariationalGenerator, embedding_size=6, hidden_size=6, latent_size=2),
        question_vocabulary=WORDS,
        answer_words=WORDS,
        feature_sizes={"concepts": 3},
    )
    data = _data(module, None)
    assert not data.batching.drop_unknown_answers
    assert not data.contents.soft_targets
    assert data.contents.encode_layouts is None
