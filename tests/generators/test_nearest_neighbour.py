"""The nearest-neighbour baseline on eight training pairs, by hand."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.feature_extraction.text import TfidfVectorizer

from ivqa.data import VQADataset
from ivqa.data.batches.batch import ImageBatch
from ivqa.generators import NearestNeighbourQuestioner
from ivqa.text.tokens import tokenise
from ivqa.text.vocabulary import Vocabulary

# image, answer, question
TRAINING = [
    (1, "red", "What color is the cat?"),
    (1, "red", "What color is the big cat?"),
    (2, "red", "What color is the cat?"),
    (2, "two", "How many cats are there?"),
    (3, "red", "What color is the dog?"),
    (3, "two", "How many dogs are there?"),
    (3, "yes", "Is there a dog?"),
    (1, "yes", "Is there a cat?"),
]
VECTORS = {1: [1.0, 0.0], 2: [0.8, 0.6], 3: [0.0, 1.0]}


class _Data:
    """A datamodule of the training pairs."""

    def __init__(self, root: Path) -> None:
        questions, annotations = [], []
        for at, (image, answer, question) in enumerate(TRAINING):
            one = {"question_id": at, "image_id": image}
            answers = [{"answer": answer, "answer_id": 1, "answer_confidence": "yes"}]
            questions.append({**one, "question": question})
            annotations.append(
                {**one, "answers": answers, "multiple_choice_answer": answer,
                 "answer_type": "other", "question_type": "none"}
            )  # fmt: skip
        (root / "questions_train.json").write_text(json.dumps({"questions": questions}))
        (root / "annotations_train.json").write_text(json.dumps({"annotations": annotations}))
        self.dataset = VQADataset(root, train="train", val=None)

    def images_of(self, stage: str, ids: list[int]) -> ImageBatch:
        return _images([VECTORS[image] for image in ids], ids)


def _images(vectors: list[list[float]], ids: list[int]) -> ImageBatch:
    index = torch.arange(len(ids))
    return ImageBatch(torch.tensor(ids), index, concepts=torch.tensor(vectors))


@pytest.fixture
def make(tmp_path: Path) -> Any:
    def build(neighbours: int) -> NearestNeighbourQuestioner:
        words = Vocabulary.build([question for _, _, question in TRAINING])
        questioner = NearestNeighbourQuestioner(
            question_vocabulary=words, feature_sizes={"concepts": 2}, neighbours=neighbours
        )
        questioner.remember(_Data(tmp_path))  # type: ignore[arg-type]
        return questioner

    return build


def test_the_same_image_and_answer_give_their_own_question(make: Any) -> None:
    images = _images([[0.0, 2.0], [0.0, 1.0], [1.6, 1.2]], [9, 8, 7])  # cosine: the scale is free
    found = make(1).sample(images, ["two", "yes", "two"])
    assert found.text == ["How many dogs are there?", "Is there a dog?", "How many cats are there?"]
    assert found.pair.tolist() == [0, 1, 2]


def test_image_and_answer_count_equally(make: Any) -> None:
    # Similarities to (0.6, 0.8), answer red: image 2 (.96 + 1) / 2, image 3 (.8 + 1) / 2,
    # image 1 (.6 + 1) / 2 twice; the best with another answer: image 2, (.96 + 0) / 2.
    questioner = make(2)
    rows = questioner._nearest(_images([[0.6, 0.8]], [9]), ["red"], 2)
    assert [questioner.texts[row] for row in rows[0]] == [
        "What color is the cat?",
        "What color is the dog?",
    ]
    rows = questioner._nearest(_images([[0.6, 0.8]], [9]), ["red"], 5)
    assert questioner.texts[rows[0, 4]] == "How many cats are there?"


def test_an_image_is_not_its_own_neighbour(make: Any) -> None:
    questioner = make(1)
    own = questioner.sample(_images([VECTORS[3]], [3]), ["yes"]).text
    other = questioner.sample(_images([VECTORS[3]], [99]), ["yes"]).text
    assert (own, other) == (["Is there a cat?"], ["Is there a dog?"])


def test_the_consensus_is_most_similar_to_the_others(make: Any) -> None:
    """Of three neighbours, two ask the same; the copies are closest to all."""
    questioner = make(4)
    images = _images([[1.0, 0.1]], [9])
    found = questioner.sample(images, ["red"], 4)
    assert sorted(found.text) == sorted(
        question for _, answer, question in TRAINING if answer == "red"
    )
    assert found.text[0] == found.text[1] == "What color is the cat?"
    # The score is the mean cosine of tf-idf vectors of n-grams.
    vectors = questioner._grams.transform(found.text).toarray()
    expected = (vectors @ vectors.T).mean(axis=1)
    np.testing.assert_allclose(found.log_likelihood.exp(), expected, rtol=1e-5)
    assert list(expected) == sorted(expected, reverse=True)


def test_texts_are_compared_by_n_grams_of_one_to_four_words(make: Any) -> None:
    questions = [question for _, _, question in TRAINING]
    other = TfidfVectorizer(tokenizer=tokenise, token_pattern=None, ngram_range=(1, 4))
    expected = other.fit(sorted(set(questions))).transform(questions).toarray()
    found = make(4)._grams.transform(questions).toarray()
    np.testing.assert_allclose(found @ found.T, expected @ expected.T, atol=1e-6)


def test_given_questions_are_scored_by_the_neighbours(make: Any) -> None:
    questioner = make(4)
    images = _images([[1.0, 0.1], [0.0, 1.0]], [9, 8])
    rows = images.select(torch.tensor([0, 1, 0, 0]))
    asked = ["What color is the cat?", "How many dogs are there?", "Raining now?", "cat?"]
    found = questioner.log_likelihood(rows, ["red", "two", "red", "red"], asked)
    asked_there = questioner.sample(images, ["red", "two"], 4).text
    near = questioner._grams.transform(asked_there).toarray()
    own = questioner._grams.transform(asked).toarray()
    expected = [
        (near[:4] @ own[0]).mean(),
        (near[4:] @ own[1]).mean(),
        0,
        (near[:4] @ own[3]).mean(),
    ]
    np.testing.assert_allclose(found[[0, 1, 3]].exp(), np.array(expected)[[0, 1, 3]], rtol=1e-5)
    assert found[2].item() == pytest.approx(math.log(1e-6))  # no n-gram in common
