"""The evaluation of GQA, eval.py of its download (Hudson and Manning, CVPR 2019)."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from ivqa.data.formats.published import records
from ivqa.data.split import ExactMatch, VQASplit, means_by
from ivqa.data.validation import Problems, shown

# eval.py has these answers for questions such as "What do the two have in common?".
_COMMON = ["color", "material", "shape"]


class GQAMetric(ExactMatch):
    """The evaluation of GQA: exact match on the balanced questions, and figures derived from it.

    - gqa/binary and gqa/open: the accuracy of questions whose structural type is not, or is,
      "query"; gqa/structural/TYPE, gqa/semantic/TYPE, gqa/length/WORDS and gqa/steps/NUMBER, by the
      words of a question and the steps of its program. (Detailed types: vqa/question_type/TYPE.)
    - gqa/consistency: over the questions that are answered right, the mean accuracy of the other
      questions that they entail. Left out if an entailed question is not in the split: it needs all
      questions, as in val_all, not only the balanced ones.
    - gqa/validity and gqa/plausibility: the shares of answers that TIER_choices.json calls valid
      and plausible. Left out without this file.
    - gqa/distribution: how far the distribution of the answers is from the right one, the mean
      chi-square statistic of the groups of questions over 100; lower is better.

    The files are read when answers are scored: entailed questions and choices of all splits would
    fill the memory.

    Args:
        questions: The files of the questions of the split.
        choices: The files of choices; none if there are none.
    """

    def __init__(self, questions: Sequence[Path], choices: Sequence[Path]) -> None:
        self.questions = tuple(questions)
        self.choices = tuple(choices)

    @override
    def counted(self, split: VQASplit) -> NDArray[np.bool_]:
        return np.array([one is not False for one in split.extras["isBalanced"]], dtype=np.bool_)

    @override
    def figures(
        self,
        split: VQASplit,
        answers: Sequence[str],
        accuracies: NDArray[np.float64],
        probability: NDArray[np.float64] | None = None,
    ) -> dict[str, float]:
        rows = np.flatnonzero(self.counted(split)).tolist()
        structural, semantic, groups = (
            [split.extras[name][row] for row in rows]
            for name in ("structural", "semantic", "group")
        )
        own = accuracies[rows]
        right, given = [split.answers[row][0] for row in rows], [answers[row] for row in rows]
        figures = means_by(
            [kind and ("binary", "open")[kind == "query"] for kind in structural], own
        )
        steps = split.extras.get("steps", [None] * len(split))
        measured: dict[str, list[Any]] = {
            "length": [str(len(split.questions[row].split())) for row in rows],
            "steps": [None if steps[row] is None else str(steps[row]) for row in rows],
        }
        measured |= {"structural": structural, "semantic": semantic}
        for name, kinds in measured.items():
            figures |= {f"{name}/{kind}": mean for kind, mean in means_by(kinds, own).items()}
        figures |= _distribution(groups, right, given)
        # Ids are the names of the questions with a 1 in front.
        row_of = {str(number)[1:]: row for row, number in enumerate(split.question_ids.tolist())}
        names = list(row_of)
        counted = {names[row]: row for row in rows}
        figures |= self._consistency(row_of, counted, accuracies)
        if self.choices:
            figures |= self._of_choices(split, counted, answers)
        return {f"gqa/{name}": value for name, value in figures.items()}

    def _consistency(
        self, row_of: Mapping[str, int], counted: Mapping[str, int], right: NDArray[np.float64]
    ) -> dict[str, float]:
        found, problems = list[float](), Problems()
        for path in self.questions:
            for name, record in records(path, None, problems):
                entailed = record.get("entailed") or []
                if name not in counted:
                    continue
                if not isinstance(entailed, list) or not all(
                    isinstance(one, str) for one in entailed
                ):
                    fault = f"must hold texts, not {shown(entailed)}; download the file again"
                    problems.add(path, f"question {name}", "entailed", fault)
                    continue
                if not (entailed := [one for one in entailed if one != name]):
                    continue
                if any(one not in row_of for one in entailed):
                    return {}
                if right[counted[name]] == 1:
                    found.append(float(right[[row_of[one] for one in entailed]].mean()))
        problems.raise_if_any()
        return {"consistency": float(np.mean(found))} if found else {}

    def _of_choices(
        self, split: VQASplit, counted: Mapping[str, int], answers: Sequence[str]
    ) -> dict[str, float]:
        problems, hits = Problems(), {"valid": list[bool](), "plausible": list[bool]()}
        missing = dict(counted)
        for path in self.choices:
            for name, record in records(path, None, problems):
                row = missing.pop(name, None)
                if row is None:
                    continue
                common = _COMMON if "Common" in split.question_types[row] else None
                for kind, found in hits.items():
                    choices = common or record.get(kind)
                    if isinstance(choices, list):
                        found.append(answers[row] in choices)
                    else:
                        fault = f"must be a list, not {shown(choices)}; download the file again"
                        problems.add(path, f"question {name}", kind, fault)
        for name in missing:
            fault = "has no choices; use the files of one download, or remove this one"
            problems.add(self.choices[0], f"question {name}", "", fault)
        problems.raise_if_any()
        return {
            "validity": float(np.mean(hits["valid"])),
            "plausibility": float(np.mean(hits["plausible"])),
        }


def _distribution(
    groups: Sequence[str | None], right: Sequence[str], given: Sequence[str]
) -> dict[str, float]:
    """The chi-square statistic of each group, weighted by its size; none without groups."""
    expected: dict[str, Counter[str]] = defaultdict(Counter)
    observed: dict[str, Counter[str]] = defaultdict(Counter)
    for group, gold, answer in zip(groups, right, given, strict=True):
        if group is not None:
            expected[group][gold] += 1
            observed[group][answer] += 1
    if not expected:
        return {}
    weighted = [
        sum((observed[group][answer] - n) ** 2 / n for answer, n in counts.items()) * counts.total()
        for group, counts in expected.items()
    ]
    return {"distribution": sum(weighted) / sum(map(Counter.total, expected.values())) / 100}
