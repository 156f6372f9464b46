"""A toy world: 11 question words, images with a concept vector and a pooled feature."""

from functools import partial

import torch

from ivqa.data.batches.batch import ImageBatch, VQABatch
from ivqa.generators import (
    AnswerOnlyGenerator,
    AttendAndTellGenerator,
    AttentiveGenerator,
    ImageAnswerTypeGenerator,
    ImageOnlyGenerator,
    PriorGenerator,
    VariationalGenerator,
)
from ivqa.text.vocabulary import Tokens

FEATURE_SIZES = {"concepts": 5, "pooled": 3, "grid": 4}
QUESTION_WORDS = ["what", "is", "the", "colour", "of", "this", "how", "many", "are", "there", "a"]
ANSWER_WORDS = ["yes", "no", "red", "2", "a", "dog"]

NETWORKS = {
    "variational": partial(VariationalGenerator, answer_size=6, latent_size=4),
    "prior": partial(PriorGenerator),
    "answer_only": partial(AnswerOnlyGenerator, answer_size=6),
    "image_only": partial(ImageOnlyGenerator),
    "image_answer_type": partial(ImageAnswerTypeGenerator),
    "attend_and_tell": partial(AttendAndTellGenerator, answer_size=6, attention_size=5),
    "attentive": partial(
        AttentiveGenerator, answer_size=6, latent_size=4, grid_size=6, layers=2, heads=2
    ),
}


def enlarge(module: torch.nn.Module, scale: float = 0.8) -> None:
    """Draws weights of about `scale`; with the initial ones all outputs are nearly uniform."""
    with torch.no_grad():
        for value in module.parameters():
            value.normal_(std=scale)


def random_tokens(num: int, num_words: int, max_length: int = 5, *, min_length: int = 0) -> Tokens:
    """Texts of random length, among them one of the largest and one of the smallest length."""
    lengths = torch.randint(min_length, max_length + 1, (num,))
    lengths[0] = max_length
    lengths[-1] = min_length
    ids = torch.randint(4, num_words, (num, max_length))
    return Tokens(ids.masked_fill(torch.arange(max_length) >= lengths[:, None], 0), lengths)


def random_images(num: int, distinct: int = 3) -> ImageBatch:
    return ImageBatch(
        ids=torch.arange(distinct) + 100,
        index=torch.randint(distinct, (num,)),
        concepts=torch.rand(distinct, FEATURE_SIZES["concepts"]),
        pooled=torch.randn(distinct, FEATURE_SIZES["pooled"]),
        grid=torch.randn(distinct, 9, FEATURE_SIZES["grid"]),
    )


def random_batch(num: int = 8) -> VQABatch:
    return VQABatch(
        rows=torch.arange(num) + 1000,
        images=random_images(num),
        question=random_tokens(num, len(QUESTION_WORDS) + 4),
        answer=random_tokens(num, len(ANSWER_WORDS) + 4, 3),
        answer_type=torch.zeros(num, dtype=torch.int64),
        target=torch.zeros(num, dtype=torch.int64),
    )


def pad(tokens: Tokens, columns: int) -> Tokens:
    """Adds columns of padding."""
    return Tokens(torch.nn.functional.pad(tokens.ids, (0, columns)), tokens.lengths)


class Batches(torch.utils.data.Dataset):
    """A list of ready batches."""

    def __init__(self, batches: list[VQABatch]) -> None:
        self.batches = batches

    def __len__(self) -> int:
        return len(self.batches)

    def __getitem__(self, index: int) -> VQABatch:
        return self.batches[index]


def loader(batches: list[VQABatch]) -> torch.utils.data.DataLoader:
    return torch.utils.data.DataLoader(Batches(batches), batch_size=None)
