"""Questions as tasks of lmms-eval: a folder for its option --include_path."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from ivqa.interchange import lmms_eval_functions
from ivqa.interchange.parquet import write_parquet
from ivqa.interchange.question_levels import QuestionLevels, write_answer_key
from ivqa.ranges import Count
from ivqa.store.files import read_text, write_text
from ivqa.text import normalisation

# The line of the functions that the copied rules of normalisation replace.
_IMPORT = "from ivqa.text.normalisation import clean_space, normalise_answer\n"
_FUNCTIONS = ("doc_to_visual", "doc_to_text", "process_results")


@dataclass(frozen=True, kw_only=True)
class LmmsEvalTasks:
    """Writes one task for each level of noise, NAME_level_K, and the group NAME of all of them.

    Args:
        pre_prompt: Text before each question.
        post_prompt: Text after each question.
        max_new_tokens: Maximum length of an answer.
    """

    pre_prompt: str = ""
    post_prompt: str = "\nAnswer the question using a single word or phrase."
    max_new_tokens: Count = 16

    def write(self, levels: QuestionLevels, folder: Path, name: str) -> str:
        """Writes YAML files, utils.py, level_K.parquet and answer_key/ (VQA format).

        The YAML files name the Parquet files relative to their own folder, so that it can be moved.
        """
        tasks = [f"{name}_level_{level}" for level in range(levels.num_levels)]
        for level, task in enumerate(tasks):
            write_parquet(folder / f"level_{level}.parquet", levels, level)
            config = self._task(task, level, has_answers=levels.split.has_answers)
            text = yaml.dump(config, Dumper=_TaskDumper, sort_keys=False)
            write_text(folder / f"{task}.yaml", text)
        write_text(folder / f"{name}.yaml", yaml.safe_dump({"group": name, "task": tasks}))
        write_text(folder / "utils.py", _functions_source())
        write_answer_key(levels, folder / "answer_key")
        logs = ",".join(f"LOGS/..._samples_{task}.jsonl" for task in tasks)
        return (
            f"run it: lmms-eval --include_path {folder} --tasks {name} --log_samples "
            "--output_path LOGS --model MODEL --model_args ...\n"
            f"score it: python evaluate.py predictions=[{logs}] data=vqa_json "
            f"data.root={folder / 'answer_key'} data.test={levels.split.name}"
        )

    def _task(self, task: str, level: int, *, has_answers: bool) -> dict[str, Any]:
        """The configuration of a task."""
        accuracy = {"metric": "vqa_accuracy", "aggregation": "mean", "higher_is_better": True}
        count = _Function("count")
        submission = {"metric": "submission", "aggregation": count, "higher_is_better": True}
        return {
            "task": task,
            "dataset_path": "parquet",
            "dataset_kwargs": {"data_files": {"test": f"level_{level}.parquet"}},
            "test_split": "test",
            "output_type": "generate_until",
            **{name: _Function(name) for name in _FUNCTIONS},
            "doc_to_target": "answer",
            "generation_kwargs": {"max_new_tokens": self.max_new_tokens, "temperature": 0},
            "metric_list": [accuracy, submission] if has_answers else [submission],
            "lmms_eval_specific_kwargs": {
                "default": {"pre_prompt": self.pre_prompt, "post_prompt": self.post_prompt}
            },
            "metadata": [{"version": 1.0}],
        }


def _functions_source() -> str:
    """The text of utils.py: the rules of normalisation and the functions of a task."""
    rules, functions = (
        read_text(Path(str(module.__file__))) for module in (normalisation, lmms_eval_functions)
    )
    if functions.count(_IMPORT) != 1:
        raise ValueError(f"{lmms_eval_functions.__file__} must have this line once: {_IMPORT}")
    return f"{rules}\n\n{functions.replace(_IMPORT, '')}"


class _Function(str):
    """The name of a function of utils.py, which YAML writes with the tag of lmms-eval."""


class _TaskDumper(yaml.SafeDumper):
    """Writes `_Function` as !function utils.NAME."""


_TaskDumper.add_representer(
    _Function,
    lambda dumper, name: dumper.represent_scalar("!function", f"utils.{name}"),
)
