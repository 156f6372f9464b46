"""Small networks of every kind."""

from collections.abc import Callable
from functools import partial

from ivqa.vqa import MLB, LanguageOnly, Prior, RecurrentEncoder, Vanilla, VQANetwork

ENCODER = partial(RecurrentEncoder, embedding_size=6, size=8, dropout=0.2)
ZOO: dict[str, tuple[Callable[..., VQANetwork], list[str]]] = {
    "prior": (Prior, []),
    "language_only": (partial(LanguageOnly, question_encoder=ENCODER, joint_size=7), []),
    "vanilla": (partial(Vanilla, question_encoder=ENCODER, joint_size=7), ["pooled"]),
    "mlb": (partial(MLB, question_encoder=ENCODER, joint_size=7), ["grid"]),
}
SIZES = {"grid": 5, "pooled": 4}


def feature_sizes(kind: str) -> dict[str, int]:
    return {name: SIZES[name] for name in ZOO[kind][1]}
