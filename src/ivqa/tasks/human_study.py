"""How far automatic metrics follow what people say [iVQA 4]."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from omegaconf import DictConfig
from rich.console import Console
from scipy.stats import pearsonr

from ivqa.data.validation import DataError, shown
from ivqa.files import read_json, write_json
from ivqa.report.tables import print_table
from ivqa.runs.artifact_store import read_metrics

_HIGHEST = 4


def human_study(cfg: DictConfig) -> float:
    """Pearson correlation, over models, of the mean human score with every metric.

    cfg.human: a JSON file {model: RUN}, where RUN is the directory of an evaluation that holds its
    metrics.json and the annotations.json that annotate.html exported. Prints two tables; returns
    the highest correlation. Raises DataError for fewer than three models or missing files.
    """
    file = Path(cfg.human)
    runs = read_json(file)
    if not isinstance(runs, dict) or len(runs) < 3:
        raise DataError(f"{file}: needs at least three models, as {{model: run directory}}")
    folders = {name: file.parent / _text(run, name, file) for name, run in runs.items()}
    scores = {name: mean_score(_records(folder), folder) for name, folder in folders.items()}
    metrics = {name: read_metrics(folder / "metrics.json") for name, folder in folders.items()}
    correlations = correlate(scores, metrics)
    console = Console()
    rows = [{"model": name, "human score, 0-4": scores[name]} for name in runs]
    print_table(rows, title="what people say", console=console)
    ranked = sorted(correlations.items(), key=lambda item: -abs(item[1]))
    print_table(
        [{"metric": name, "Pearson's r": value} for name, value in ranked],
        title=f"metrics and people, over {len(runs)} models",
        console=console,
    )
    run_dir = Path(cfg.output_dir)
    run_dir.mkdir(parents=True, exist_ok=True)
    write_json(
        run_dir / "metrics.json",
        {**{f"human/{name}": value for name, value in scores.items()},
         **{f"pearson/{name}": value for name, value in correlations.items()}},
    )  # fmt: skip
    return max(correlations.values(), default=float("nan"))


def mean_score(annotations: Sequence[Mapping[str, object]], source: Path) -> float:
    """Mean score in [0, 4] of the records that have one. Raises DataError where none has."""
    given = [record["score"] for record in annotations if "score" in record]
    known = range(_HIGHEST + 1)
    wrong = [score for score in given if type(score) not in (int, float) or score not in known]
    if not given or wrong:
        what = f"a score is {wrong[0]}, not 0 to 4" if wrong else "no record has a score"
        raise DataError(f"{source / 'annotations.json'}: {what}")
    return sum(float(str(score)) for score in given) / len(given)


def correlate(
    scores: Mapping[str, float], metrics: Mapping[str, Mapping[str, float]]
) -> dict[str, float]:
    """Pearson's r of the scores with every metric that all models have and that varies.

    >>> metrics = {"a": {"cider": 0.5}, "b": {"cider": 1.0}, "c": {"cider": 1.5}}
    >>> correlate({"a": 1.0, "b": 2.0, "c": 3.0}, metrics)
    {'cider': 1.0}
    """
    names = list(scores)
    shared = [key for key in metrics[names[0]] if all(key in metrics[name] for name in names)]
    human = [scores[name] for name in names]
    found = {}
    for key in shared:
        values = [metrics[name][key] for name in names]
        if len(set(values)) > 1 and len(set(human)) > 1:
            found[key] = round(float(pearsonr(human, values).statistic), 6)
    return found


def _records(folder: Path) -> list[dict[str, object]]:
    file = folder / "annotations.json"
    records = read_json(file, list)
    for number, record in enumerate(records, start=1):
        if not isinstance(record, dict):
            raise DataError(f"{file}, record {number}: must be an object, not {shown(record)}")
    return records


def _text(run: object, name: str, file: Path) -> str:
    if not isinstance(run, str):
        raise DataError(f"{file}: the run of '{name}' must be a folder, not {shown(run)}")
    return run
