"""The functions of an exported lmms-eval task; `lmms_eval` copies this file into utils.py.

lmms-eval runs the copy in its own environment, without ivqa. Its accuracy is the one that
`predictions=` computes from the log.
"""

from typing import Any

from ivqa.text.normalisation import clean_space, normalise_answer


def doc_to_visual(doc: dict[str, Any]) -> list[Any]:
    """The images of a question, in RGB."""
    return [doc["image"].convert("RGB")]


def doc_to_text(
    doc: dict[str, Any], lmms_eval_specific_kwargs: dict[str, str] | None = None
) -> str:
    """The prompt of a question: between the texts that the task's YAML file sets."""
    prompts = lmms_eval_specific_kwargs or {}
    return prompts.get("pre_prompt", "") + doc["question"] + prompts.get("post_prompt", "")


def process_results(doc: dict[str, Any], results: list[str]) -> dict[str, Any]:
    """Scores the answer to a question, which is alone in `results`.

    Returns:
        The VQA accuracy, and what identifies the answer in the log: with --log_samples,
        lmms-eval writes the values of this dict, but not the question's other columns.
    """
    answer = results[0]
    kept = ("question_id", "image_id", "kind", "level", "answers")
    return {
        "vqa_accuracy": vqa_accuracy(answer, doc["answers"]),
        "submission": {**{name: doc[name] for name in kept}, "answer": answer},
    }


def vqa_accuracy(answer: str, given: list[str]) -> float:
    """The VQA accuracy of an answer, in [0, 1] (Antol et al. 2015, vqaEval.py of 2018).

    With n = 10 annotators each in turn is left out, as in the official evaluation; with other n the
    accuracy is min(matches / min(3, n), 1), and 0 without annotators.
    """
    cleaned = [clean_space(one) for one in given]
    # The official evaluation normalises only where annotators differ; one alone has no rule there.
    if len(set(cleaned)) == 1 < len(given):
        matches = cleaned.count(clean_space(answer))
    else:
        matches = [normalise_answer(one) for one in given].count(normalise_answer(answer))
    if len(given) == 10:
        return (0.0, 0.3, 0.6, 0.9, 1.0)[min(matches, 4)]
    return min(matches / min(3, max(len(given), 1)), 1.0)


def count(submissions: list[dict[str, Any]]) -> int:
    """The number of answers; lmms-eval requires an aggregate of each metric."""
    return len(submissions)
