"""The seven linguistic metrics of the iVQA benchmark, accumulated over batches and processes."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torchmetrics import Metric

from ivqa.metrics.bleu import bleu
from ivqa.metrics.cider import cider
from ivqa.metrics.meteor import meteor_nltk
from ivqa.metrics.rouge_l import rouge_l

_SEPARATOR = 0  # no text contains it
_PAIR_END = 1


class CaptionMetrics(Metric):
    """BLEU-1..4, ROUGE-L, CIDEr-D and METEOR (NLTK) of questions against references.

    CIDEr's document frequencies are those of all references seen, so the metric keeps the texts:
    as bytes in one tensor, which is what processes can exchange.

    >>> metric = CaptionMetrics()
    >>> metric.update(["What color is the cat?"], [["What color is the cat?"]])
    >>> round(metric.compute()["bleu1"], 3)
    1.0
    """

    full_state_update = False
    texts: Tensor | list[Tensor]

    def __init__(self) -> None:
        super().__init__()
        self.add_state("texts", [], dist_reduce_fx="cat")

    def update(self, hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> None:
        """Adds P hypotheses, each with its references."""
        if len(hypotheses) != len(references):
            raise ValueError(
                f"{len(hypotheses)} hypotheses for {len(references)} lists of references; "
                "give one list a hypothesis"
            )
        assert isinstance(self.texts, list)
        data = bytearray()
        for hypothesis, texts in zip(hypotheses, references, strict=True):
            for text in (hypothesis, *texts):
                data += text.encode() + bytes([_SEPARATOR])
            data.append(_PAIR_END)
        self.texts.append(torch.frombuffer(data, dtype=torch.uint8).clone().to(self.device))

    def compute(self) -> dict[str, float]:
        """The metrics by name: bleu1..4, rouge_l, meteor in [0, 1], cider in [0, 10]."""
        whole = torch.cat(self.texts) if isinstance(self.texts, list) else self.texts
        pairs = [
            [text.decode() for text in pair.split(bytes([_SEPARATOR]))[:-1]]
            for pair in whole.cpu().numpy().tobytes().split(bytes([_PAIR_END]))[:-1]
        ]
        hypotheses, references = [pair[0] for pair in pairs], [pair[1:] for pair in pairs]
        return caption_metrics(hypotheses, references)


def caption_metrics(
    hypotheses: Sequence[str], references: Sequence[Sequence[str]]
) -> dict[str, float]:
    """The seven metrics of hypotheses against references, by name; see `CaptionMetrics`."""
    scores = bleu(hypotheses, references)
    return {
        "cider": cider(hypotheses, references),
        **{f"bleu{order + 1}": score for order, score in enumerate(scores)},
        "rouge_l": rouge_l(hypotheses, references),
        "meteor": meteor_nltk(hypotheses, references),
    }
