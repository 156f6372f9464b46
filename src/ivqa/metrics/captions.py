"""The seven linguistic metrics of the iVQA benchmark, accumulated over batches and processes."""

import warnings
from collections.abc import Sequence

from ivqa.metrics.bleu import bleu
from ivqa.metrics.cider import FEWEST_PAIRS, cider
from ivqa.metrics.meteor import meteor_nltk
from ivqa.metrics.ngrams import require_pairs
from ivqa.metrics.rouge_l import rouge_l
from ivqa.metrics.text_state import TextMetric


class CaptionMetrics(TextMetric):
    """BLEU-1..4, ROUGE-L, CIDEr-D and METEOR (NLTK) of questions against references.

    CIDEr's document frequencies are those of all references seen, so the metric keeps the texts;
    the warning that these are few comes once a metric, not once an epoch.

    >>> metric = CaptionMetrics()
    >>> questions = [f"What color is cat {number}?" for number in range(50)]
    >>> metric.update(questions, [[question] for question in questions])
    >>> {name: round(value, 3) for name, value in metric.compute().items() if name != "meteor"}
    {'cider': 10.0, 'bleu1': 1.0, 'bleu2': 1.0, 'bleu3': 1.0, 'bleu4': 1.0, 'rouge_l': 1.0}
    """

    _warned = False

    def update(self, hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> None:
        """Adds P hypotheses, each with its references; raises ValueError where they differ."""
        require_pairs(hypotheses, references)
        self._add([(text, *texts) for text, texts in zip(hypotheses, references, strict=True)])

    def compute(self) -> dict[str, float]:
        """The metrics by name: bleu1..4, rouge_l, meteor in [0, 1], cider in [0, 10]."""
        pairs = self._groups()
        with warnings.catch_warnings():
            if self._warned:
                warnings.filterwarnings("ignore", message="CIDEr of")
            self._warned = self._warned or len(pairs) < FEWEST_PAIRS
            return caption_metrics([pair[0] for pair in pairs], [pair[1:] for pair in pairs])


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
