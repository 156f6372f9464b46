"""Hydra callbacks that summarise a multirun: a table averaged over seeds, and noise curves.

Hydra builds them in every command, so that pandas and PyTorch are imported where they are used.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hydra.experimental.callback import Callback
from omegaconf import DictConfig, OmegaConf
from typing_extensions import override

from ivqa.config.short_forms import shortened
from ivqa.store.files import read_yaml, write_json
from ivqa.terminal import terminal


class MultirunTable(Callback):
    """Writes metrics.json of all jobs to results.json, and table.md, .csv, .tex and .html.

    Args:
        columns: The metric of each column, by heading, in the order of the paper's table. None
            shows all metrics except detailed ones, such as vqa/kind/count; results.json has all.
        shared_rows: Rows for values that all jobs of a seed have in common, such as the
            supervised generator's: {name of the row: {prefix: other prefix}}. Such a row has the
            metrics of the first job whose names start with the other prefix.
        joined_rows: Names of rows that hold the metrics of several settings, such as a generator
            and a VQA model: {name of the row: [settings]}. Other settings are left out.
        side_by_side: Overrides whose runs stand in one row: {name: override}. The metrics of such a
            run begin with the name: {GBQD: bqd=gbqd} gives GBQD/robustness/r_score.
    """

    def __init__(
        self,
        columns: Mapping[str, str] | None = None,
        shared_rows: Mapping[str, Mapping[str, str]] | None = None,
        joined_rows: Mapping[str, Sequence[str]] | None = None,
        title: str | None = None,
        side_by_side: Mapping[str, str] | None = None,
    ) -> None:
        self.columns = dict(columns or {})
        self.shared_rows = {name: dict(row) for name, row in (shared_rows or {}).items()}
        self.joined_rows = {name: list(of) for name, of in (joined_rows or {}).items()}
        self.title = title
        self.side_by_side = dict(side_by_side or {})

    @override
    def on_multirun_end(self, config: DictConfig, **kwargs: Any) -> None:
        from ivqa.report.tables import print_table, write_table

        sweep_dir = Path(str(config.hydra.sweep.dir))
        jobs = _jobs(config)
        finished = [job for job in jobs if job["metrics"]]
        if not finished:
            return
        averages = beside(average_over_seeds(finished), self.side_by_side)
        averages = joined(averages, self.joined_rows)
        rows = [
            {**arranged(averages[0], replaced(self.columns, prefixes)), "setting": name}
            for name, prefixes in self.shared_rows.items()
        ]
        rows += [arranged(row, self.columns) for row in averages]
        runs = [row.pop("runs", ()) for row in rows]
        write_json(sweep_dir / "results.json", jobs)
        counted = f"{len(finished)} of {len(jobs)} runs"
        title = counted if self.title is None else f"{self.title} ({counted})"
        write_table(sweep_dir, rows, title, runs=runs)
        console = terminal()
        print_table(rows, title=title, console=console)
        for job in jobs:
            if not job["metrics"]:
                console.print(
                    f"no metrics: {job['directory']} ({', '.join(job['overrides'])})",
                    soft_wrap=True,
                )
        console.print(f"table: {sweep_dir / 'table.html'} (and .md, .csv, .tex)", soft_wrap=True)


class MultirunShares(Callback):
    """Draws stacked bars, one for each job, to shares.png.

    Args:
        columns: The metric of each part of a bar, by name.
    """

    def __init__(self, columns: Mapping[str, str]) -> None:
        self.columns = dict(columns)

    @override
    def on_multirun_end(self, config: DictConfig, **kwargs: Any) -> None:
        import pandas as pd

        from ivqa.report.plots import write_shares

        sweep_dir = Path(str(config.hydra.sweep.dir))
        jobs = [
            job
            for job in _jobs(config)
            if all(metric in job["metrics"] for metric in self.columns.values())
        ]
        if not jobs:
            return
        frame = pd.DataFrame([job["metrics"] for job in jobs], index=settings_of(jobs))
        means = frame.groupby(level=0, sort=False).mean()[list(self.columns.values())]
        means.columns = pd.Index(list(self.columns))
        write_shares(sweep_dir / "shares.png", means)
        terminal().print(f"bars: {sweep_dir / 'shares.png'}", soft_wrap=True)


class MultirunCurves(Callback):
    """Draws the accuracy under noise of all jobs that measured it to curves.png.

    Args:
        pictures: Keys whose values have a picture each, curves_VALUE.png, as `[model, bqd]`.
    """

    def __init__(self, pictures: Sequence[str] = ()) -> None:
        self.pictures = set(pictures)

    @override
    def on_multirun_end(self, config: DictConfig, **kwargs: Any) -> None:
        from ivqa.report.plots import write_noise_curve

        sweep_dir = Path(str(config.hydra.sweep.dir))
        groups: dict[str, list[dict[str, Any]]] = {}
        for job in _jobs(config):
            if "robustness/partition_0/accuracy" in job["metrics"]:
                groups.setdefault(self._picture(row_of(job)), []).append(job)
        for name, jobs in groups.items():
            names = distinguishing([row_of(job) for job in jobs])
            curves = {name: job["metrics"] for name, job in zip(names, jobs, strict=True)}
            write_noise_curve(sweep_dir / name, curves)
            terminal().print(f"curves: {sweep_dir / name}", soft_wrap=True)

    def _picture(self, row: Sequence[str]) -> str:
        """The picture of a job; a variant, which has no key, has its own as a value of model."""
        parts = [item.partition("=") for item in row]
        values = [value or key for key, _, value in parts if key in self.pictures or not value]
        return "_".join(["curves", *(values if self.pictures else ())]) + ".png"


def distinguishing(overrides: Sequence[Sequence[str]]) -> list[str]:
    """Names jobs by the overrides that not all of them share.

    >>> distinguishing([["model=mlb", "ranker=lasso"], ["model=mlb", "ranker=cider"]])
    ['ranker=lasso', 'ranker=cider']
    """
    common = set.intersection(*(set(items) for items in overrides)) if len(overrides) > 1 else set()
    return [" ".join(item for item in items if item not in common) for items in overrides]


def settings_of(jobs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Names the setting of each job, the items of its row without the seed."""
    return distinguishing([[item for item in row_of(job) if item[:5] != "seed="] for job in jobs])


def row_of(job: Mapping[str, Any]) -> list[str]:
    """What tells a job from the others: its overrides, with the name of a variant for its own."""
    return list(job.get("variant") or job["overrides"])


def with_variant(overrides: Sequence[str], variants: Mapping[str, Sequence[str]]) -> list[str]:
    """Replaces the overrides of a variant of hydra/sweeper=variants by its name.

    Of several variants whose overrides a job has, the one with the most counts.

    >>> variants = {"HAV": ["model=a"], "HAR": ["model=a", "features=b"]}
    >>> with_variant(["seed=1", "model=a", "features=b"], variants)
    ['HAR', 'seed=1']
    """
    fitting = [name for name, items in variants.items() if set(items) <= set(overrides)]
    if not fitting:
        return list(overrides)
    name = max(fitting, key=lambda name: len(variants[name]))
    return [name, *(item for item in overrides if item not in variants[name])]


def beside(rows: Sequence[Mapping[str, Any]], overrides: Mapping[str, str]) -> list[dict[str, Any]]:
    """Joins the rows of runs that differ in one override alone, with its name before each metric.

    >>> rows = [{"setting": "model=a bqd=x", "r": 1}, {"setting": "model=a bqd=y", "r": 2}]
    >>> beside(rows, {"X": "bqd=x", "Y": "bqd=y"})
    [{'setting': 'model=a', 'X/r': 1, 'Y/r': 2}]
    """
    found: dict[str, dict[str, Any]] = {}
    for row in rows:
        items = row["setting"].split()
        setting = " ".join(item for item in items if item not in overrides.values()) or "default"
        prefix = "".join(f"{name}/" for name, item in overrides.items() if item in items)
        own = found.setdefault(setting, {"setting": setting})
        for metric, value in row.items():
            if metric == "runs":
                own["runs"] = [*own.get("runs", ()), *value]
            elif metric != "setting":
                own[metric if metric == "seeds" else prefix + metric] = value
    return list(found.values())


def joined(
    rows: Sequence[Mapping[str, Any]], names: Mapping[str, Sequence[str]]
) -> list[dict[str, Any]]:
    """Joins rows of several settings to rows with `names`; without names, they stay as they are.

    Of a metric that several settings have, that of the first row counts.

    >>> rows = [{"setting": "model=a", "x": 1}, {"setting": "model=b", "y": 2}]
    >>> joined(rows, {"ab": ["model=a", "model=b"]})
    [{'setting': 'ab', 'x': 1, 'y': 2}]
    """
    if not names:
        return [dict(row) for row in rows]
    found = []
    for name, settings in names.items():
        row: dict[str, Any] = {"setting": name}
        for own in rows:
            if own["setting"] in settings:
                runs = [*row.get("runs", ()), *own.get("runs", ())]
                row |= {metric: value for metric, value in own.items() if metric not in row}
                row |= {"runs": runs} if runs else {}
        found.append(row)
    return found


def arranged(row: Mapping[str, Any], columns: Mapping[str, str]) -> dict[str, Any]:
    """Puts the metrics of a row under headings, after "setting" and "seeds".

    Without `columns`, all metrics but detailed ones, whose names have three parts.

    >>> arranged({"setting": "model=mlb", "robustness/r_score": 0.4}, {"R": "robustness/r_score"})
    {'setting': 'model=mlb', 'R': 0.4}
    >>> arranged({"setting": "model=mlb", "vqa/accuracy": 0.8, "vqa/kind/count": 0.5}, {})
    {'setting': 'model=mlb', 'vqa/accuracy': 0.8}
    """
    if not columns:
        return {key: value for key, value in row.items() if key.count("/") < 2}
    shown = {heading: row.get(metric, "") for heading, metric in columns.items()}
    return {key: row[key] for key in ("setting", "seeds", "runs") if key in row} | shown


def replaced(columns: Mapping[str, str], prefixes: Mapping[str, str]) -> dict[str, str]:
    """Replaces the prefixes of the metrics of columns.

    >>> replaced({"U#": "rl/unique"}, {"rl/": "supervised/"})
    {'U#': 'supervised/unique'}
    """
    shown = dict(columns)
    for old, new in prefixes.items():
        for heading, metric in shown.items():
            if metric.startswith(old):
                shown[heading] = new + metric.removeprefix(old)
    return shown


def average_over_seeds(jobs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Averages the metrics of jobs that differ in their seed alone.

    A row is named by the overrides that not all settings share. With several seeds every value is
    a text "mean ± standard deviation" (n - 1 in the denominator). "runs" are the directories of
    the jobs, where they have one.
    """
    import pandas as pd

    frame = pd.DataFrame([job["metrics"] for job in jobs])
    settings = settings_of(jobs)
    rows = []
    for setting in dict.fromkeys(settings):
        chosen = frame[[name == setting for name in settings]].dropna(axis=1, how="all")
        row: dict[str, Any] = {"setting": setting or "default"}
        for metric in chosen.columns:
            mean, spread = chosen[metric].mean(), chosen[metric].std()
            row[str(metric)] = mean if len(chosen) == 1 else f"{mean:.3f} ± {spread:.3f}"
        of = [job for job, name in zip(jobs, settings, strict=True) if name == setting]
        row |= {"seeds": len(chosen)} if len(chosen) > 1 else {}
        runs = [job["directory"] for job in of if "directory" in job]
        rows.append({**row, "runs": runs} if runs else row)
    return rows


def _jobs(config: DictConfig) -> list[dict[str, Any]]:
    """Directory, overrides and metrics of each job, in the order of their numbers.

    A variant of hydra/sweeper=variants has its `row_of` too.
    """
    from ivqa.runs.run_directory import read_metrics

    sweep_dir = Path(str(config.hydra.sweep.dir))
    variants = OmegaConf.select(config, "hydra.sweeper.variants") or {}
    folders = [folder for folder in sweep_dir.iterdir() if (folder / ".hydra").is_dir()]
    jobs = []
    for folder in sorted(
        folders, key=lambda folder: int(folder.name) if folder.name.isdigit() else 0
    ):
        file = folder / "metrics.json"
        given = read_yaml(folder / ".hydra" / "overrides.yaml", list)
        overrides = [shortened(str(item)) for item in given]
        job = {
            "directory": str(folder),
            "overrides": overrides,
            "metrics": read_metrics(file) if file.is_file() else {},
        }
        row = with_variant(overrides, variants)
        jobs.append(job if row == overrides else {**job, "variant": row})
    return jobs
