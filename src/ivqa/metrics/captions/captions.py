"""The seven caption metrics of the iVQA benchmark."""

from collections.abc import Sequence

from ivqa.metrics.captions.bleu import bleu
from ivqa.metrics.captions.cider import cider
from ivqa.metrics.captions.meteor import meteor_nltk
from ivqa.metrics.captions.rouge_l import rouge_l


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
