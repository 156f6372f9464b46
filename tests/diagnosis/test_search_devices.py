"""The search of belief sets with all of its models on the CPU or on a CUDA device."""

from functools import partial
from typing import Any

import torch
from toy_diagnosis import ANSWERS, WORDS, toy_images, toy_questioner

from devices import on_devices
from ivqa.diagnosis import BeliefSearch, LegalityCNN, LegalityModule
from ivqa.diagnosis.search.search import Found
from ivqa.vqa import RecurrentEncoder, Vanilla, VQAModule

PAIR_ANSWERS = ["yes", "red", "no", "yes"]


def _search(device: str) -> Found:
    torch.manual_seed(0)
    encoder = partial(RecurrentEncoder, embedding_size=6, size=8, dropout=0.0)
    answerer: Any = VQAModule(
        network=partial(Vanilla, question_encoder=encoder, joint_size=7),
        question_vocabulary=WORDS,
        answers=ANSWERS,
        feature_sizes={"concepts": 5},
    )
    legality_model = LegalityModule(
        network=partial(LegalityCNN, widths=(1, 2), maps=(4, 4), embedding_size=6),
        question_vocabulary=WORDS,
    )
    for value in answerer.parameters():
        value.data *= 4  # so that answers depend on questions
    models = {"one": toy_questioner(1), "other": toy_questioner(2)}
    search = BeliefSearch(
        {name: model.to(device) for name, model in models.items()},
        answerer.to(device).eval(),
        ANSWERS,
        legality_model.to(device).eval(),
        num_latents=40,
        legality=0.01,
    )
    return search(toy_images(4), PAIR_ANSWERS, torch.Generator().manual_seed(3))


def _phi(found: Found) -> dict[tuple[int, str], float]:
    candidates, rows = found.candidates, found.kept.tolist()
    return {
        (candidates.pairs[row], candidates.questions.text[row]): float(candidates.phi[row])
        for row in rows
    }


@on_devices
def test_beliefs_are_those_of_the_cpu(device: str) -> None:
    expected, found = _phi(_search("cpu")), _phi(_search(device))
    both = expected.keys() & found.keys()
    # A draw may fall on the other side of a bound; the questions of both have the same phi.
    assert len(both) >= 0.9 * max(len(expected), len(found)) > 3
    for key in both:
        assert abs(found[key] - expected[key]) < 5e-3
    records = _search(device).beliefs([11, 12, 13, 14])
    assert len(records) == len(found)
