"""The seven caption metrics of the iVQA benchmark."""

import warnings
from collections.abc import Sequence

from ivqa.metrics.captions.bleu import bleu
from ivqa.metrics.captions.cider import FEWEST_PAIRS, cider
from ivqa.metrics.captions.meteor import meteor_nltk
from ivqa.metrics.captions.ngrams import require_pairs
from ivqa.metrics.captions.rouge_l import rouge_l
from ivqa.metrics.captions.text_state import TextMetric


class CaptionMetrics(TextMetric):
    """`caption_metrics` accumulated over batches and processes.

    CIDEr needs the document frequencies of all references, so the state is the texts themselves.
    The warning about too few references comes once for each metric object, not in every epoch.

    Example:
        >>> metric = CaptionMetrics()
        >>> questions = [f"What color is cat {number}?" for number in range(50)]
        >>> metric.update(questions, [[question] for question in questions])
        >>> {name: round(value, 3) for name, value in metric.compute().items() if name != "meteor"}
        {'cider': 10.0, 'bleu1': 1.0, 'bleu2': 1.0, 'bleu3': 1.0, 'bleu4': 1.0, 'rouge_l': 1.0}
    """

    _warned = False

    def update(self, hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> None:
        """Adds P hypotheses, each with a non-empty list of references; see `caption_metrics`."""
        require_pairs(hypotheses, references)
        self._add([(text, *texts) for text, texts in zip(hypotheses, references, strict=True)])

    def compute(self) -> dict[str, float]:
        """Computes the metrics of all texts by name; see `caption_metrics`."""
        pairs = self._groups()
        with warnings.catch_warnings():
            if self._warned:
                # The message of `cider_scores` starts with these words.
                warnings.filterwarnings("ignore", message="CIDEr of")
            self._warned = self._warned or len(pairs) < FEWEST_PAIRS
            return caption_metrics([pair[0] for pair in pairs], [pair[1:] for pair in pairs])


def caption_metrics(
    hypotheses: Sequence[str], references: Sequence[Sequence[str]]
) -> dict[str, float]:
    """Computes CIDEr-D, BLEU-1 to BLEU-4, ROUGE-L and METEOR (NLTK) of a corpus.

    Arguments and errors are those of `bleu`.

    Returns:
        "cider" in [0, 10]; "bleu1" to "bleu4", "rouge_l" and "meteor" in [0, 1]. See the functions
        of these names.
    """
    scores = bleu(hypotheses, references)
    return {
        "cider": cider(hypotheses, references),
        **{f"bleu{order + 1}": score for order, score in enumerate(scores)},
        "rouge_l": rouge_l(hypotheses, references),
        "meteor": meteor_nltk(hypotheses, references),
    }
