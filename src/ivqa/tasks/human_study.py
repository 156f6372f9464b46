"""Human study: correlation of automatic metrics with human scores over models [iVQA 4]."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from omegaconf import DictConfig
from rich.console import Console
from scipy.stats import pearsonr

from ivqa.data.validation import DataError, shown
from ivqa.files import read_json, write_json
from ivqa.report.tables import print_table
from ivqa.runs.run_directory import read_metrics

_HIGHEST = 4


def human_study(cfg: DictConfig) -> float:
    """Correlates the mean human score with every metric over models (task=human_study).

    Prints two tables and writes metrics.json.

    Args:
        cfg: The configuration of evaluate.py. cfg.human is a JSON file {model: RUN}: RUN is the
            directory of an evaluation, with its metrics.json and the annotations.json that
            annotate.html exports.

    Returns:
        The highest Pearson correlation.

    Raises:
        DataError: There are fewer than three models, or files are missing.
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
    print_table(rows, title="human scores", console=console)
    ranked = sorted(correlations.items(), key=lambda item: -abs(item[1]))
    print_table(
        [{"metric": name, "Pearson's r": value} for name, value in ranked],
        title=f"correlation with human scores, {len(runs)} models",
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
    """Averages the human scores of a run.

    Args:
        annotations: Records of annotations.json; records without a "score" are skipped.
        source: The run directory, for messages.

    Returns:
        The mean score in [0, 4].

    Raises:
        DataError: No record has a score, or a score is not 0, 1, 2, 3 or 4.
    """
    given = [record["score"] for record in annotations if "score" in record]
    valid = range(_HIGHEST + 1)
    wrong = [score for score in given if type(score) not in (int, float) or score not in valid]
    if not given or wrong:
        fault = f"a score is {wrong[0]}, not 0 to 4" if wrong else "no record has a score"
        raise DataError(f"{source / 'annotations.json'}: {fault}")
    return sum(float(str(score)) for score in given) / len(given)


def correlate(
    scores: Mapping[str, float], metrics: Mapping[str, Mapping[str, float]]
) -> dict[str, float]:
    """Computes Pearson's r of the scores with every metric that all models have and that varies.

    Args:
        scores: Mean human score by model.
        metrics: Metrics of each model by name.

    Returns:
        r in [-1, 1] by metric, rounded to six digits.

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
    """The records of annotations.json in a run directory."""
    file = folder / "annotations.json"
    records = read_json(file, list)
    for number, record in enumerate(records, start=1):
        if not isinstance(record, dict):
            raise DataError(f"{file}, record {number}: must be an object, not {shown(record)}")
    return records


def _text(run: object, name: str, file: Path) -> str:
    """The run directory of a model, as text; anything else is an error of the file."""
    if not isinstance(run, str):
        raise DataError(f"{file}: the run of '{name}' must be a folder, not {shown(run)}")
    return run
