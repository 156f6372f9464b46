"""What ivqa itself stores in a run directory is never refused there."""

from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from ivqa.config.stored_runs import OwnSettings, check_stored
from ivqa.config.trust import components
from ivqa.console import conf_dir
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
