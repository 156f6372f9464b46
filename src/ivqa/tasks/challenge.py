"""The challenging set of several models: evaluate.py task=challenge runs=[RUN_A,RUN_B].

The paper joins the adversarial beliefs of four models [iVQA, Table 5]: runs=[MULTIRUN].
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from omegaconf import DictConfig

from ivqa.config.keys import CommandKeys
from ivqa.diagnosis.beliefs.challenge_union import join_challenges
from ivqa.errors import UserError
from ivqa.ranges import AtLeastOne, ExistingFolder
from ivqa.report.tables import print_table
from ivqa.runs.run_directory import run_directories, write_config
from ivqa.store.files import read_yaml, write_json, write_text
from ivqa.tasks.compare import names_of_runs
from ivqa.terminal import terminal

_CONTENT = {
    "challenge": "wrong beliefs whose right answer is known",
    "irrelevant": "wrong beliefs without a right answer, most of them about things that are absent",
    "beliefs": "all beliefs whose right answer is known, right ones too",
}


class Keys(CommandKeys, total=False):
    """Keys of task=challenge."""

    runs: Annotated[Sequence[ExistingFolder], AtLeastOne]


def join(cfg: Annotated[DictConfig, Keys]) -> float:
    """Joins the challenging sets of the diagnoses cfg.runs (task=challenge).

    Of a multirun, the jobs with cfg.seed are joined: other seeds are other trainings, which are
    asked about other images. Writes challenge/, a data root in the official VQA format with the
    data card README.md, and metrics.json into the run directory.

    Returns:
        The number of questions with a right answer that some model gets wrong.

    Raises:
        UserError: A run has no challenge/, or a multirun has no finished job with this seed.
        DataError: There are no questions, or the runs are about different images.
    """
    runs = [run for folder in cfg.runs for run in _diagnoses(Path(folder), cfg.seed)]
    names = names_of_runs(runs)
    run_dir = Path(cfg.output_dir)
    root = run_dir / "challenge"
    sources = {name: run / "challenge" for name, run in zip(names, runs, strict=True)}
    joined = join_challenges(root, sources)
    rows = card_rows(joined, names)
    write_text(root / "README.md", data_card(joined, names))
    write_config(cfg, run_dir)
    metrics = {}
    for row in rows:
        metrics[f"challenge/{row['split']}"] = float(row["questions"])
        metrics[f"challenge/{row['split']}_images"] = float(row["images"])
    write_json(run_dir / "metrics.json", metrics)
    console = terminal()
    print_table(rows, title=f"beliefs of {', '.join(names)}", console=console)
    console.print(f"data root: {root}\nrun: {run_dir}", soft_wrap=True)
    return metrics.get("challenge/challenge", 0.0)


def _diagnoses(folder: Path, seed: int) -> list[Path]:
    """The run itself, or the jobs of a multirun that have this seed."""
    # A diagnosis that finds no wrong belief writes no challenge/.
    if (folder / "challenge").is_dir() or (folder / "beliefs.jsonl").is_file():
        return [folder]
    if (folder / "metrics.json").is_file():
        raise UserError(f"runs: {folder} has no challenge/; give runs of diagnose.py")
    seeds = {
        job: read_yaml(job / "config.yaml", dict).get("seed") for job in run_directories([folder])
    }
    jobs = [job for job, own in seeds.items() if own == seed]
    if not jobs:
        known = ", ".join(str(own) for own in dict.fromkeys(seeds.values()))
        raise UserError(f"runs: {folder} has no finished job with seed={seed}, only seed={known}")
    return [run for job in jobs for run in _diagnoses(job, seed)]


def card_rows(
    joined: Mapping[str, Sequence[Mapping[str, Any]]], names: Sequence[str]
) -> list[dict[str, Any]]:
    """Counts the questions of each split of `join_challenges`.

    A row has the questions and images of a split, how many questions each model believes, and how
    many all models believe.
    """
    rows = []
    for split, asked in joined.items():
        believed = Counter(name for record in asked for name in record["believed_by"])
        rows.append(
            {
                "split": split,
                "questions": len(asked),
                "images": len({record["image_id"] for record in asked}),
                **{name: believed[name] for name in names},
                "all models": sum(len(record["believed_by"]) == len(names) for record in asked),
            }
        )
    return rows


def data_card(joined: Mapping[str, Sequence[Mapping[str, Any]]], names: Sequence[str]) -> str:
    """Describes a set of `join_challenges` in Markdown for those who use it."""
    rows = card_rows(joined, names)
    head = " | ".join(rows[0])
    lines = [" | ".join(str(value) for value in row.values()) for row in rows]
    table = "\n".join(f"| {line} |" for line in [head, " | ".join("---" for _ in rows[0]), *lines])
    content = "\n".join(f"- `{split}`: {_CONTENT[split]}." for split in joined)
    kinds = Counter(str(record["kind"]) for asked in joined.values() for record in asked)
    found = ", ".join(f"{kind} {count:,}" for kind, count in kinds.most_common())
    return f"""# Questions that VQA models answer wrongly

Questions about images that {", ".join(names)} answer wrongly, found by searching for the
questions that a model answers with a given answer (Liu et al., Inverse Visual Question Answering,
2018).

{content}

{table}

Kinds of beliefs over all splits: {found}.

## Format

The official VQA format: `questions_SPLIT.json`, `annotations_SPLIT.json`, and the pictures in
`images/SPLIT`. Each question has two more keys: `kind`, the type of the belief, and `believed_by`,
the answer of each model that believes it. Each accepted answer has four annotators, so that it
scores 1 in the official evaluation.

## Use

    python evaluate.py model=mlb questions=PATH_OF_THIS_FOLDER

prints the accuracy on the split `challenge`, and with `questions_split=beliefs` the accuracy for
each kind of belief.

## Limits

- The questions were chosen because these models fail. Other models may find them easier, so the
  accuracies of these models and of others cannot be compared.
- The questions come from a generator. Some are not what people would ask.
- Right answers come from people or from the program of a scene; `type_by` in the `beliefs.jsonl`
  of the runs says which.
- The licence of the pictures is that of the data set that they come from.
"""
