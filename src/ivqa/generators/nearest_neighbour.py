"""Baseline NN: questions about similar images with similar answers (iVQA, section 4).

Nearest-neighbour captioning (Devlin et al. 2015, arXiv:1505.04467), adapted as in the paper: the
distance of two (image, answer) pairs is the mean of the distance of the images and that of the
answers. Among the questions of the nearest training pairs, the consensus is asked: the one that is
most similar to the others.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from sklearn.feature_extraction.text import TfidfVectorizer
from torch import Tensor, nn

from ivqa.data import VQADataModule
from ivqa.data.batches.batch import ImageBatch
from ivqa.errors import UserError
from ivqa.generators.decoding.strategies import Strategy
from ivqa.generators.networks.image_encoder import concatenated
from ivqa.generators.protocol import Questions
from ivqa.ranges import Count
from ivqa.text.tokens import tokenise
from ivqa.text.vocabulary import Vocabulary

# A question that shares no n-gram with the neighbours; its logarithm is finite.
_LEAST = 1e-6
_IMAGES_AT_ONCE = 2048
_PAIRS_AT_ONCE = 128  # each is compared with all training pairs


class NearestNeighbourQuestioner(nn.Module):
    """A `Questioner` that remembers the training questions. Nothing is trained.

    Its log-likelihoods are logarithms of a score, the mean cosine of a question's tf-idf vector
    (n-grams of 1 to 4 words) with those of the neighbours' questions. They rank questions, but are
    no probabilities.

    Args:
        question_vocabulary: Words of the questions.
        feature_sizes: Last dimension of each image feature that measures the distance of images.
        neighbours: Number of nearest training pairs.
    """

    version: ClassVar[int] = 1

    def __init__(
        self,
        *,
        question_vocabulary: Vocabulary,
        feature_sizes: Mapping[str, int],
        neighbours: Count = 60,
    ) -> None:
        super().__init__()
        if not feature_sizes:
            raise UserError(
                "this generator compares images; name a feature in model.image_features"
            )
        self.question_vocabulary = question_vocabulary
        self.feature_sizes = dict(feature_sizes)
        self.neighbours = neighbours
        self._grams = TfidfVectorizer(
            tokenizer=tokenise,
            token_pattern=None,
            lowercase=False,  # tokenise does that
            ngram_range=(1, 4),
            dtype=np.float32,
        )
        self._answers = TfidfVectorizer(analyzer=tokenise, dtype=np.float32)

    def remember(self, datamodule: VQADataModule) -> None:
        """Stores the training pairs."""
        split = datamodule.dataset.split("train").require_answers()
        ids, image = np.unique(split.image_ids, return_inverse=True)
        parts = []
        for start in range(0, len(ids), _IMAGES_AT_ONCE):
            batch = datamodule.images_of("train", ids[start : start + _IMAGES_AT_ONCE].tolist())
            parts.append(concatenated(batch, self.feature_sizes))
        self.images, self.image_ids = _unit(torch.cat(parts)), ids
        self.image = torch.from_numpy(image)
        # A pair's answer and question by their row among the distinct ones.
        answers, self.answer = np.unique(np.array(split.main_answers), return_inverse=True)
        texts, self.question = np.unique(np.array(split.questions), return_inverse=True)
        self.texts = texts.tolist()
        self.answer_vectors = self._answers.fit_transform(answers.tolist())
        self.question_vectors = self._grams.fit_transform(self.texts)

    def sample(
        self,
        images: ImageBatch,
        answers: list[str],
        num_samples: int = 1,
        strategy: Strategy | None = None,
        generator: torch.Generator | None = None,
    ) -> Questions:
        """Returns the neighbours' questions of highest consensus; see `Questioner.sample`.

        Nothing is random. Copies are possible, as among the neighbours; the questions of one pair
        come by falling score.
        """
        nearest = self._nearest(images, answers, max(self.neighbours, num_samples))  # (B, k)
        vectors = self.question_vectors[nearest.ravel()]
        score = _consensus(vectors, vectors, np.arange(len(answers)), nearest.shape[1])
        order = np.argsort(-score.reshape(nearest.shape), axis=1, kind="stable")[:, :num_samples]
        rows = np.take_along_axis(nearest, order, axis=1).ravel()
        text = [self.texts[row] for row in rows.tolist()]
        chosen = np.take_along_axis(score.reshape(nearest.shape), order, axis=1).ravel()
        return Questions(
            tokens=self.question_vocabulary.encode(text),
            text=text,
            log_likelihood=_logarithm(chosen),
            pair=torch.arange(len(answers)).repeat_interleave(num_samples),
        )

    def log_likelihood(
        self, images: ImageBatch, answers: list[str], questions: list[str]
    ) -> Tensor:
        """Scores given questions by logarithms of scores in (0, 1]; see the class."""
        pairs = list(zip(images.index.tolist(), answers, strict=True))
        row_of = {pair: row for row, pair in enumerate(dict.fromkeys(pairs))}
        group = np.array([row_of[pair] for pair in pairs])
        index = torch.tensor([image for image, _ in row_of])
        distinct = replace(images, index=index)
        nearest = self._nearest(distinct, [answer for _, answer in row_of], self.neighbours)
        near = self.question_vectors[nearest.ravel()]
        own = self._grams.transform(questions)
        return _logarithm(_consensus(own, near, group, nearest.shape[1]))

    def _nearest(self, images: ImageBatch, answers: list[str], number: int) -> NDArray[np.int64]:
        """Rows of the distinct questions of the nearest training pairs, (B, number)."""
        number = min(number, len(self.image))
        of_image = _unit(concatenated(images, self.feature_sizes)) @ self.images.T  # (M, images)
        # An image is not its own neighbour.
        own = images.ids.numpy()[:, None] == self.image_ids
        of_image = of_image.masked_fill(torch.from_numpy(own), -torch.inf)
        distinct, code = np.unique(np.array(answers), return_inverse=True)
        of_answer = self._answers.transform(distinct.tolist()) @ self.answer_vectors.T
        of_answer = torch.from_numpy(of_answer.toarray()[:, self.answer])  # (A, pairs)
        found = []
        for rows in torch.arange(len(answers)).split(_PAIRS_AT_ONCE):
            images_of_rows = of_image[images.index[rows]][:, self.image]  # (rows, pairs)
            similarity = (images_of_rows + of_answer[torch.from_numpy(code)[rows]]) / 2
            found.append(self.question[similarity.topk(number).indices.numpy()])
        return np.concatenate(found)


def _consensus(own: Any, near: Any, group: NDArray[np.int64], number: int) -> NDArray[np.float32]:
    """Mean cosine of each row of `own` with the `number` neighbours of its group."""
    groups = near.shape[0] // number
    rows = np.repeat(np.arange(groups), number)
    mean = sparse.csr_matrix(
        (np.full(len(rows), 1 / number, dtype=np.float32), (rows, np.arange(len(rows))))
    )
    means = (mean @ near).tocsr()  # (groups, n-grams)
    if own is near:
        group = rows
    return np.asarray(own.multiply(means[group]).sum(axis=1), dtype=np.float32).ravel()


def _unit(values: Tensor) -> Tensor:
    return nn.functional.normalize(values, dim=1)


def _logarithm(scores: NDArray[np.float32]) -> Tensor:
    return torch.from_numpy(scores).clamp_min(_LEAST).log()
