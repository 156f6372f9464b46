"""What ivqa itself stores in a run directory is never refused there; what it never stores, is."""

from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from ivqa.config.stored_runs import OwnSettings, check_links, check_stored, stored_overrides
from ivqa.config.trust import components
from ivqa.console import conf_dir
from ivqa.errors import UserError
from ivqa.runs.saved_config import _relocate


@pytest.mark.parametrize(
    ("command", "choices"),
    [
        ("train", ["model=ivqa_attention", "logger=wandb", "features=pretrained_concepts"]),
        ("train", ["model=mlb", "augment=basic_questions", "callbacks=beliefs"]),
        ("train", ["model=ivqa_rl", "model@vqa=openai", "vqa.path=x", "callbacks=robustness"]),
        ("evaluate", ["model=mlb", "callbacks=robustness", "noise=joint", "noise@noise.image=bqd"]),
        ("evaluate", ["task=rank", "encoder=whitened", "features=resnet50"]),
        ("diagnose", ["experiment=repair", "data=vqa_v2", "data.root=/data", "noise=vqabq"]),
    ],
)
def test_the_components_of_conf_are_not_refused(
    command: str, choices: list[str], tmp_path: Path
) -> None:
    given = [f"output_dir={tmp_path}", "artifacts=/store"]
    with initialize_config_dir(str(conf_dir().absolute()), version_base="1.3"):
        cfg = compose(command, [*choices, *given])
    stored = OmegaConf.create(OmegaConf.to_yaml(cfg, resolve=True))
    OmegaConf.set_struct(stored, True)
    check_stored(cfg, "", tmp_path, [conf_dir()], OwnSettings(frozenset({"artifacts"}), ()))
    # A configuration that is stored elsewhere gets the user's directories.
    none = OwnSettings(frozenset(), ())
    _relocate(stored, tmp_path / "moved", none)
    check_stored(stored, "", tmp_path / "moved", [conf_dir()], none)
    assert "/store" not in OmegaConf.to_yaml(stored, resolve=True)


def test_a_component_of_an_own_folder_needs_no_list(tmp_path: Path) -> None:
    (tmp_path / "reward").mkdir()
    (tmp_path / "reward" / "mine.yaml").write_text("short: {_target_: mine.Short}\n")
    (tmp_path / "ranker").mkdir()
    (tmp_path / "ranker" / "mine.yaml").write_text("_target_: mine.Ranker\n")
    found = components((conf_dir(), tmp_path))
    assert "mine.Short" in found["rewards"]
    assert "mine.Ranker" in found["ranker"]
    assert not any("hydra_plugins" in name for names in found.values() for name in names)
    assert "ivqa.sweeps.multirun.MultirunTable" not in found["callbacks"]
    assert found["pool"] == found["bqd"]


_CAST = "pytorch_lightning.callbacks"


@pytest.mark.parametrize(
    ("fault", "stored"),
    {
        "no component of conf/ for this": {"callbacks": {"x": {"_target_": "torch.optim.SGD"}}},
        "a component by reference": {
            "callbacks": {"x": {"_target_": "${y}"}}, "y": f"{_CAST}.LambdaCallback",
        },
        "names of keys": {"vqa": {"api_key_env": "SECRET"}},
        "addresses": {"vqa": {"path": "http://x"}},
        "a path outside": {"callbacks": {"last": {"dirpath": "/witness"}}},
        "may not set a path": {"callbacks": {"x": {
            "_target_": f"{_CAST}.ModelCheckpoint", "dirpath": "../witness",
        }}},
        "of its directory": {"split": "../../witness"},
        "positional": {"callbacks": {"x": {
            "_target_": f"{_CAST}.ModelCheckpoint", "_args_": ["/witness"],
        }}},
        "arguments of the command": {"command": {"cfg": {"x": 1}}},
        "more of a logger": {"logger": {"wandb": {"log_model": "all"}}},
        "not resolved": {"name": "${oc.env:SECRET}"},
    }.items(),
)  # fmt: skip
def test_what_only_the_user_may_set_is_refused(
    fault: str, stored: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET", "sesame")
    cfg = OmegaConf.create({"artifacts": str(tmp_path / "store"), **stored})
    with pytest.raises(UserError, match=fault) as error:
        check_stored(cfg, "x", tmp_path / "run", [conf_dir()], OwnSettings(frozenset(), ()))
    assert "sesame" not in str(error.value)


def test_an_override_that_reads_the_environment_is_refused(tmp_path: Path) -> None:
    for line in ("name=${oc.env:SECRET}", "+x={a:[${oc.env:SECRET}]}", "name=${oc.create:'x'}"):
        with pytest.raises(UserError, match="reads more than other keys and was not resolved"):
            stored_overrides([line], tmp_path, [])
    users = [f"{key}=/x" for key in ("artifacts", "resume", "output_dir", "trust")]
    assert stored_overrides(["name=${model.name}", *users], tmp_path, []) == ["name=${model.name}"]


def test_a_link_that_leads_outside_is_refused(tmp_path: Path) -> None:
    run = tmp_path / "run"
    (run / "parts").mkdir(parents=True)
    (run / "parts" / "here").symlink_to(run)
    check_links(run)
    (run / "parts" / "there").symlink_to(tmp_path)
    with pytest.raises(UserError, match=f"there is a link to {tmp_path}, and a resumed run"):
        check_links(run)
