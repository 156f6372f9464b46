"""Components are deleted, added and replaced; dictionaries change keys."""

from pathlib import Path
from typing import Any

import pytest
from hydra import compose, initialize_config_dir
from hydra.errors import HydraException
from hydra.utils import instantiate
from omegaconf import OmegaConf
from pytorch_lightning.callbacks import EarlyStopping, TQDMProgressBar

from ivqa.config.checks import check_config
from ivqa.config.error_messages import describe
from ivqa.errors import UserError

CONF = Path(__file__).parents[2] / "conf"
BAR = "+callbacks.progress={_target_:pytorch_lightning.callbacks.TQDMProgressBar,refresh_rate:3}"


def _composed(*overrides: str) -> Any:
    with initialize_config_dir(str(CONF), version_base="1.3"):
        return compose("train", [*overrides])


def _message(*overrides: str) -> str:
    with pytest.raises(HydraException) as raised:
        _composed(*overrides)
    return describe(raised.value, overrides, conf_dir=CONF, config_name="train")


def test_a_component_is_replaced() -> None:
    cfg = _composed("~callbacks.progress", BAR)
    target = "pytorch_lightning.callbacks.TQDMProgressBar"
    assert cfg.callbacks.progress == {"_target_": target, "refresh_rate": 3}
    assert isinstance(instantiate(cfg.callbacks.progress), TQDMProgressBar)
    check_config(cfg)


def test_the_new_component_takes_its_own_arguments_alone() -> None:
    cfg = _composed("~callbacks.progress", BAR.replace("refresh_rate", "refresh_rat"))
    with pytest.raises(UserError, match=r"nothing reads callbacks.progress.refresh_rat \(did you"):
        check_config(cfg)
    cfg = _composed("~callbacks.progress", BAR.replace("TQDMProgressBar", "TQDMProgress"))
    with pytest.raises(UserError, match="TQDMProgress cannot be imported"):
        check_config(cfg)


def test_null_and_a_dictionary_without_a_class_work_as_before() -> None:
    assert _composed("callbacks.progress=null").callbacks.progress is None
    assert _composed("data.images={val:3}").data.images == {"train": 4000, "val": 3, "test": 500}


def test_an_unknown_key_in_a_dictionary_says_how_to_replace_the_node() -> None:
    message = _message("callbacks.progress={refresh_rate:3}")
    assert message.startswith("there is no configuration key 'callbacks.progress.refresh_rate';")
    assert message.endswith(
        "(to replace the whole node: ~callbacks.progress "
        "'+callbacks.progress={_target_:CLASS,KEY:VALUE}')"
    )
    misspelt = BAR.removeprefix("+").replace("progress=", "progres=")
    assert "no configuration key 'callbacks.progres'; did you mean callbacks.progress" in _message(
        misspelt
    )


def test_a_list_in_place_of_a_node_is_one_sentence() -> None:
    message = _message("callbacks.progress=[1]")
    assert message.startswith("callbacks.progress=[1]: ")
    assert message.endswith("give one key, as in callbacks.progress.KEY=VALUE")
    assert "\n" not in message


def test_a_component_is_added_to_components(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reference without other overrides lacks it; Hydra provides it in a command."""
    added = "+callbacks.stop={_target_:pytorch_lightning.callbacks.EarlyStopping,monitor:val/loss}"
    cfg = _composed(added)
    monkeypatch.setattr("ivqa.config.checks._same_choices", lambda _: _composed())
    check_config(cfg)
    assert isinstance(instantiate(cfg.callbacks.stop), EarlyStopping)
    OmegaConf.update(cfg, "data.stop", cfg.callbacks.stop, force_add=True)
    with pytest.raises(UserError, match=r"nothing reads data.stop"):
        check_config(cfg)
    with pytest.raises(UserError, match=r"nothing reads callbacks.stop"):
        check_config(_composed("+callbacks.stop={monitor:x}"))
