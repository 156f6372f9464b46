"""Cache keys of experiments: what changes them, and that nothing is trained for them."""

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest
from tools.experiments import Project
from tools.jobs import configurations
from tools.result_keys import Keys, combined, keys_of
from tools.results import keys_of_experiments

import ivqa
from documented_commands import PROJECT
from ivqa.metrics import RScore
from ivqa.robustness import RobustnessCallback
from ivqa.tasks.diagnose import diagnose
from ivqa.vqa import MLB

CONF = PROJECT / "conf"
MLB_RUN = ("evaluate.py", "model=mlb")


@cache
def found(*words: str) -> Keys:
    return keys_of([words], CONF)


def changed(*settings: str, run: Sequence[str] = MLB_RUN) -> set[str]:
    """The components whose keys settings change."""
    before, after = found(*run), found(*run, *settings)
    return {
        name for name in before.keys | after.keys if before.keys.get(name) != after.keys.get(name)
    }


def test_a_model_has_keys_of_itself_its_features_and_its_data() -> None:
    keys = found(*MLB_RUN)
    assert keys.keys.keys() == {"mlb", "features", "data", "measuring"}
    assert all(len(key) == 1 for key in keys.keys.values())
    assert keys.code.items() >= {"MLB": 1, "ConceptFeatures": 1, "VQABenchmark": 1}.items()


@pytest.mark.parametrize(
    ("setting", "components"),
    [
        ("output_dir=x num_workers=2 logger=wandb trainer.accelerator=cpu artifacts=x", set()),
        ("model.module.network.num_glimpses=3", {"mlb", "measuring"}),
        ("model.epochs=3", {"mlb", "measuring"}),
        ("seed=2", {"mlb", "measuring"}),
        ("data.seed=1", {"mlb", "features", "data", "measuring"}),
        ("split=val", {"measuring"}),
        ("++model.benchmark.batch_size=100", {"measuring"}),
        ("callbacks=robustness", {"measuring"}),
    ],
)
def test_a_setting_changes_the_keys_that_depend_on_it(setting: str, components: set[str]) -> None:
    assert changed(*setting.split()) == components


@pytest.mark.parametrize("setting", ["noise.levels=3", "r_score.limit=0.3"])
def test_the_settings_of_noise_are_those_of_the_measurement(setting: str) -> None:
    assert changed(setting, run=[*MLB_RUN, "callbacks=robustness"]) == {"measuring"}


def test_a_sweep_has_the_keys_of_all_its_jobs() -> None:
    sweep = ["evaluate.py", "-m", "model=mlb,prior", "seed=1,2"]
    jobs = [(cfg.model.name, cfg.seed) for cfg in configurations(sweep, CONF)]
    assert jobs == [("mlb", 1), ("mlb", 2), ("prior", 1), ("prior", 2)]
    keys = found(*sweep).keys
    assert {name: len(keys[name]) for name in keys} == {
        **{"mlb": 2, "prior": 2, "measuring": 4},
        **{"data": 1, "features": 1},
    }
    assert set(found(*MLB_RUN).keys["mlb"]) < set(keys["mlb"])
    experiment = ["evaluate.py", "experiment=table2_bias", "seed=1,2"]
    jobs = [(cfg.model.name, cfg.seed) for cfg in configurations(experiment, CONF)]
    assert len(jobs) == len(set(jobs)) >= 12  # the experiment sweeps over six models


def test_a_diagnosis_rests_on_all_parts_of_its_policy() -> None:
    keys = found("diagnose.py", "vqa=mlb")
    assert keys.keys.keys() >= {"ivqa_rl", "ivqa_vae", "legality", "mlb", "measuring"}
    versions = {one.__name__: one.version for one in (diagnose, RobustnessCallback, RScore)}
    assert keys.code.items() >= versions.items()


@pytest.mark.parametrize(
    ("target", "run", "components"),
    [
        (MLB, MLB_RUN, {"mlb"}),
        (RobustnessCallback, [*MLB_RUN, "callbacks=robustness"], set()),
        (diagnose, ["diagnose.py", "vqa=prior"], set()),
    ],
)
def test_a_raised_version_is_seen(
    target: object, run: Sequence[str], components: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before, version = found(*run), target.version  # type: ignore[attr-defined]
    monkeypatch.setattr(target, "version", 7)
    after = keys_of([run], CONF)
    name = target.__name__  # type: ignore[attr-defined]
    texts = before.changes(after)
    assert texts[0] == f"`{name}` had version {version}, has version 7"
    assert set(texts[1:]) == components


def test_keys_need_neither_data_nor_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("IVQA_SOME_DATA", raising=False)
    run = ["evaluate.py", "model=mlb", "data=vqa_json", "data.root=$IVQA_SOME_DATA", "split=val"]
    absent = found(*run)
    assert absent.keys.keys() == {"mlb", "features", "measuring"}
    (tmp_path / "questions_val.json").write_text("{}")
    assert not [path for path in tmp_path.iterdir() if path.name != "questions_val.json"]


def test_results_of_another_experiment_are_a_key() -> None:
    own, other = Keys({"mlb": ["a"]}, {"MLB": 1}), Keys({"n2nmn": ["b"]}, {"N2NMN": 1})
    both = combined(own, {"beliefs": other})
    assert set(both.keys) == {"mlb", "results of beliefs"}
    raised = combined(own, {"beliefs": Keys({"n2nmn": ["c"]}, {"N2NMN": 2})})
    assert both.changes(raised) == ["results of beliefs"]


@pytest.mark.slow
def test_no_table_of_the_page_is_out_of_date() -> None:
    project = Project(PROJECT)
    records, keys = project.records(), keys_of_experiments(project)
    stale = {
        name: changes
        for name, one in project.experiments().items()
        if name in records and (changes := records[name].changes(one, keys[name]))
    }
    page = (PROJECT / "docs" / "results.md").read_text()
    assert page.count("**Out of date**") == len(stale), "run python -m tools.results --page"
    assert not stale, f"run make results: {json.dumps(stale, indent=1)}"


def test_the_package_under_test_is_this_checkout() -> None:
    assert Path(ivqa.__file__).is_relative_to(PROJECT)
