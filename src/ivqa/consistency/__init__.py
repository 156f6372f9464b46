"""Consistency of VQA models: answers that cannot all be true, without labels.

A model that answers "red" to "What color is the car?" and "no" to "Is there a car?" is wrong at
least once [Ribeiro, Guestrin and Singh, ACL 2019]. `ConsistencyCallback` asks a model what follows
from its answers by the rules of `ivqa.logic`, `implied_by` derives the questions, and
`consistency_figures` computes the figures.
"""

from ivqa.consistency.augmentation import ImplicationAugmentation
from ivqa.consistency.callback import ConsistencyCallback
from ivqa.consistency.figures import consistency_figures
from ivqa.consistency.implied import AnsweredQuestion, Implied, affordable, answers_of, implied_by
from ivqa.consistency.measure import ConsistencyMeasure, answered, implied_split, questions_split
from ivqa.consistency.records import ConsistencyRecords, ImageConsistency, read_images
from ivqa.consistency.teacher import implied_beliefs, typed_by_consistency

__all__ = [
    "AnsweredQuestion",
    "ConsistencyCallback",
    "ConsistencyMeasure",
    "ConsistencyRecords",
    "ImageConsistency",
    "ImplicationAugmentation",
    "Implied",
    "affordable",
    "answered",
    "answers_of",
    "consistency_figures",
    "implied_beliefs",
    "implied_by",
    "implied_split",
    "questions_split",
    "read_images",
    "typed_by_consistency",
]
