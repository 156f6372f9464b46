"""A small network of each kind."""

from collections.abc import Callable
from functools import partial

from ivqa.vqa import (
    LSTMQI,
    MCB,
    MLB,
    HieCoAtt,
    LanguageOnly,
    Mutan,
    MutanNoAttention,
    Prior,
    RecurrentEncoder,
    Vanilla,
    VQANetwork,
)

ENCODER = partial(RecurrentEncoder, embedding_size=6, size=8, dropout=0.2)
ZOO: dict[str, tuple[Callable[..., VQANetwork], list[str]]] = {
    "prior": (Prior, []),
    "language_only": (partial(LanguageOnly, question_encoder=ENCODER, joint_size=7), []),
    "vanilla": (partial(Vanilla, question_encoder=ENCODER, joint_size=7), ["pooled"]),
    "lstm_qi": (
        partial(LSTMQI, embedding_size=6, hidden_size=8, joint_size=7, dropout=0.1),
        ["pooled"],
    ),
    "hiecoatt": (partial(HieCoAtt, size=8, sentence_size=9, dropout=0.1), ["grid"]),
    "mlb": (partial(MLB, question_encoder=ENCODER, joint_size=7), ["grid"]),
    "mutan_noatt": (
        partial(MutanNoAttention, question_encoder=ENCODER, joint_size=7, rank=2),
        ["pooled"],
    ),
    "mutan": (
        partial(Mutan, question_encoder=ENCODER, hidden_size=7, fused_size=9, rank=2),
        ["grid"],
    ),
    "mcb": (
        partial(MCB, question_encoder=ENCODER, size=40, attention_size=24, hidden_size=9),
        ["grid"],
    ),
}
SIZES = {"grid": 5, "pooled": 4}


def feature_sizes(kind: str) -> dict[str, int]:
    return {name: SIZES[name] for name in ZOO[kind][1]}
