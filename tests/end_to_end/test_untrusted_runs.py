"""Runs and checkpoints from elsewhere can do nothing: each attempt ends with one sentence."""

import json
import os
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest
import torch
import yaml
from omegaconf import OmegaConf

import ivqa
from ivqa.config.stored_runs import own_settings, stored_overrides
from ivqa.config.trust import check_targets
from ivqa.console import conf_dir
from ivqa.errors import UserError
from ivqa.store.checkpoint_io import AtomicCheckpointIO
from ivqa.store.weights import read_weights

from .conftest import Run

_ELASTIC = "torch.distributed.elastic.multiprocessing.subprocess_handler"


def _run_from_elsewhere(folder: Path, overrides: list[str]) -> Path:
    """A run directory that looks interrupted, with the given overrides."""
    folder.mkdir()
    (folder / "config.yaml").write_text(yaml.safe_dump({"name": "vanilla"}))
    (folder / "overrides.yaml").write_text(yaml.safe_dump(overrides))
    (folder / "progress.json").write_text(json.dumps({}))
    return folder


@pytest.mark.parametrize(
    "attack",
    [
        "+callbacks.x={_target_:os.system,command:'touch WITNESS'}",
        "+callbacks.x={_target_:torch.os.system,command:'touch WITNESS'}",
        "+callbacks.x={_target_:builtins.open,file:WITNESS,mode:w}",
        "+callbacks.x={_target_:ivqa.store.files.write_text,path:WITNESS,text:x}",
        "+callbacks.x=[[{_target_:os.system,command:'touch WITNESS'}]]",
        "+callbacks.x={_target_:hydra.utils.get_method,path:os.system}",
        "+callbacks.x={_target_:functools.partial,_args_:[{_target_:os.system}]}",
        "+callbacks.x={_target_:'os.${y}',command:'touch WITNESS'}|+y=system",
        "command._target_=os.system",
        # Classes of PyTorch, Lightning and ivqa that do not belong there, or do more than that.
        f"+callbacks.x={{_target_:{_ELASTIC}.SubprocessHandler,entrypoint:touch,args:[WITNESS],"
        "env:{},stdout:null,stderr:null,local_rank_id:0}",
        "+callbacks.x={_target_:torch.utils.tensorboard.SummaryWriter,log_dir:WITNESS}",
        "+callbacks.x={_target_:pytorch_lightning.loggers.CSVLogger,save_dir:WITNESS}",
        "+callbacks.x={_target_:ivqa.runs.loggers.RunWandbLogger,save_dir:WITNESS}",
        "+callbacks.x={_target_:ivqa.tasks.train.train,cfg:{}}",
        "+logger.x={_target_:pytorch_lightning.loggers.MLFlowLogger,tracking_uri:WITNESS}",
        "+callbacks.x={_target_:pytorch_lightning.callbacks.LambdaCallback,"
        "setup:{_target_:os.system,command:'touch WITNESS'}}",
        "+callbacks.optimizer={_target_:torch.optim.Adam}",
        "+trainer.profiler={_target_:pytorch_lightning.profilers.SimpleProfiler,dirpath:WITNESS}",
        "features=resnet50|features.head.path=os.system",
    ],
)
def test_a_resumed_run_cannot_name_other_code(run: Run, tmp_path: Path, attack: str) -> None:
    witness = tmp_path / "witness"
    overrides = attack.replace("WITNESS", str(witness)).split("|")
    folder = _run_from_elsewhere(tmp_path / "run", ["trust=[os,builtins]", *overrides])
    status, output = run("train", f"resume={folder}")
    assert status == 1
    assert "was not run; if you wrote it, add trust=[" in " ".join(output.split())
    assert not witness.exists()
    assert "Traceback" not in output


@pytest.mark.parametrize(
    "line",
    [
        "hydra.launcher._target_=os.system",
        "hydra/launcher=x",
        "/hydra/launcher=x",
        "+model@hydra.launcher=mlb",
        "+callbacks@hydra.callbacks=default",
        "trust@_global_=[os]",
        "-m",
        "--config-dir=evil",
        "seed=1,2",
        "t\u0440ust=[os]",
        "model=../../evil",
        "+experiment=/tmp/evil",
        "+experiment=[repair,../evil]",
    ],
)
def test_a_resumed_run_cannot_set_hydra(run: Run, tmp_path: Path, line: str) -> None:
    folder = _run_from_elsewhere(tmp_path / "run", [line])
    status, output = run("train", f"resume={folder}")
    assert status == 1
    assert f"holds '{line}', which no run of ivqa stores" in " ".join(output.split())


@pytest.mark.parametrize(
    "attack",
    [
        "callbacks.last.dirpath=WITNESS",
        "callbacks.last.dirpath=witness",
        "callbacks.best.filename=../../witness",
        "callbacks.best.filename='{epoch:c}{epoch:c}/witness'",
        "+callbacks.x={_target_:pytorch_lightning.callbacks.ModelCheckpoint,dirpath:WITNESS}",
        "+callbacks.x={_target_:pytorch_lightning.callbacks.ModelCheckpoint,_args_:[WITNESS]}",
        "callbacks.last.dirpath='${x}'|+x=WITNESS",
        "callbacks.last.dirpath='${output_dir}/../witness'",
        "logger.csv.save_dir=WITNESS",
        "+logger.tb={_target_:pytorch_lightning.loggers.TensorBoardLogger,save_dir:WITNESS}",
        "data.cache_dir=WITNESS",
        "model.name=../../../witness",
        "+split=../../witness",
        "callbacks=robustness|augment=basic_questions|augment.noise.cache=WITNESS",
        "+command.cfg.output_dir=WITNESS",
    ],
)
def test_a_resumed_run_cannot_write_elsewhere(run: Run, tmp_path: Path, attack: str) -> None:
    witness = tmp_path / "witness"
    folder = _run_from_elsewhere(
        tmp_path / "run", attack.replace("WITNESS", str(witness)).split("|")
    )
    status, output = run("train", f"resume={folder}")
    assert status == 1
    message = " ".join(output.split())
    assert "comes from the stored run, which may not set " in message
    assert "; if you trust it, add " in message
    assert not witness.exists()
    assert "Traceback" not in output


class _Listener(BaseHTTPRequestHandler):
    """Counts what reaches a stranger's server."""

    received: list[str]

    def do_GET(self) -> None:
        self.received.append(str(self.headers))
        self.send_error(500)

    do_POST = do_GET


@pytest.fixture
def stranger() -> Iterator[tuple[str, list[str]]]:
    """The address of a server, and what it received."""
    received: list[str] = []
    handler = type("Handler", (_Listener,), {"received": received})
    server = HTTPServer(("127.0.0.1", 0), handler)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/v1", received
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize(
    ("attack", "key"),
    [
        ("vqa.base_url=URL|vqa.api_key_env=IVQA_SECRET", "vqa.base_url=URL"),
        ("vqa.api_key_env=IVQA_SECRET", "vqa.api_key_env=IVQA_SECRET"),
        ("vqa.module.endpoint.base_url=URL", "vqa.module.endpoint.base_url=URL"),
        ("++vqa={base_url:'URL'}", "vqa.base_url=URL"),
        ("vqa.base_url='${x}'|+x='URL'", "vqa.base_url=URL"),
        ("vqa.module.endpoint='${e}'|+e={base_url:'URL'}", "e.base_url=URL"),
        ("vqa.path=URL", "vqa.path=URL"),
        ("logger=wandb|+logger.wandb.settings={base_url:'URL'}", "logger.wandb.settings.base_url"),
        ("logger=wandb|+logger.wandb.entity=stranger", "logger.wandb.entity=stranger"),
        ("logger=wandb|+logger.wandb.log_model=all", "logger.wandb.log_model=all"),
    ],
)
def test_a_resumed_run_cannot_choose_who_is_asked(
    run: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    stranger: tuple[str, list[str]],
    attack: str,
    key: str,
) -> None:
    monkeypatch.setenv("IVQA_SECRET", "sesame")
    url, received = stranger
    overrides = ["model@vqa=openai", "vqa.path=x", *attack.replace("URL", url).split("|")]
    folder = _run_from_elsewhere(tmp_path / "run", overrides)
    status, output = run("diagnose", f"resume={folder}", "num_images=1")
    assert status == 1
    message = " ".join(output.split())
    assert f"{key.replace('URL', url)}" in message
    assert "comes from the stored run, which may not set " in message
    assert received == []
    assert "sesame" not in output


@pytest.mark.slow  # it draws the whole embedded data
def test_the_user_may_give_an_address_again(
    run: Run, tmp_path: Path, stranger: tuple[str, list[str]]
) -> None:
    url, _ = stranger
    folder = _run_from_elsewhere(
        tmp_path / "run", ["model@vqa=openai", "vqa.path=x", f"vqa.base_url='{url}'"]
    )
    given = [f"vqa.base_url={url}", "vqa.module.endpoint.retries=0", "num_images=1"]
    _, output = run("diagnose", f"resume={folder}", *given)
    assert "stored run" not in output


@pytest.mark.parametrize("command", [[], ["--cfg", "job", "--resolve"]])
@pytest.mark.parametrize(
    "line",
    [
        "name=${oc.env:IVQA_SECRET}",
        "name=$\\{oc.env:IVQA_SECRET\\}",
        "model='${oc.env:IVQA_SECRET}'",
        "+x={a:[${oc.env:IVQA_SECRET}]}",
        "name='${oc.decode:${oc.env:IVQA_SECRET}}'",
        "name='${.${oc.env:IVQA_SECRET}}'",
        "name=${hydra:runtime.cwd}",
        "name=${oc.create:'x'}",
    ],
)
def test_a_resumed_run_cannot_read_the_environment(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, command: list[str]
) -> None:
    monkeypatch.setenv("IVQA_SECRET", "sesame")
    folder = _run_from_elsewhere(tmp_path / "run", [line])
    status, output = run("train", f"resume={folder}", *command)
    assert status == 1
    assert "which reads more than other keys and was not resolved" in " ".join(output.split())
    assert "sesame" not in output


@pytest.mark.parametrize("name", ["metrics.csv", ".hydra", "checkpoints/last.ckpt", "parts"])
def test_a_resumed_run_cannot_lead_elsewhere(run: Run, tmp_path: Path, name: str) -> None:
    folder = _run_from_elsewhere(tmp_path / "run", [])
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").write_text("mine")
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).symlink_to(tmp_path / "mine" / ("file" if "." in name[1:] else ""))
    status, output = run("train", f"resume={folder}")
    assert status == 1
    assert f"{name} is a link to {tmp_path / 'mine'}" in " ".join(output.split())
    assert (tmp_path / "mine" / "file").read_text() == "mine"
    assert [file.name for file in (tmp_path / "mine").iterdir()] == ["file"]


def test_the_artifact_store_is_the_user_s(run: Run, tmp_path: Path, artifacts: Path) -> None:
    lines = [f"artifacts={tmp_path / 'witness'}", "++resume=null", f"output_dir={tmp_path}/other"]
    folder = _run_from_elsewhere(tmp_path / "run", lines)
    status, output = run("train", f"resume={folder}", "--cfg", "job", "--resolve")
    assert status == 0
    note = f"artifacts={tmp_path / 'witness'} of the run is not used; add it to use that store"
    assert note in output
    cfg = yaml.safe_load(output.replace(note, ""))
    assert cfg["artifacts"] == str(artifacts)
    assert (cfg["resume"], cfg["output_dir"]) == (str(folder), str(folder))


def test_a_yaml_tag_is_not_run(run: Run, tmp_path: Path) -> None:
    folder, witness = _run_from_elsewhere(tmp_path / "run", []), tmp_path / "witness"
    attack = f"!!python/object/apply:os.system ['touch {witness}']\n"
    for name in ("overrides.yaml", "config.yaml"):
        (folder / name).write_text(attack)
        if name == "overrides.yaml":
            status, output = run("train", f"resume={folder}")
            assert (status, "is damaged" in output) == (1, True)
        else:
            with pytest.raises(UserError, match="is damaged"):
                ivqa.load(folder)
        assert not witness.exists()


def test_a_checkpoint_cannot_delete_files(tmp_path: Path) -> None:
    mine, folder = tmp_path / "mine", tmp_path / "run" / "checkpoints"
    folder.mkdir(parents=True)
    mine.mkdir()
    (mine / "file").touch()
    (folder / "old.ckpt").touch()
    storage = AtomicCheckpointIO()
    for path in (folder / "../../mine/file", folder / "../../mine", folder):
        storage.remove_checkpoint(path)
    assert (mine / "file").is_file()
    assert (folder / "old.ckpt").is_file()
    storage.remove_checkpoint(folder / "old.ckpt")
    assert not (folder / "old.ckpt").exists()


_LOADED = {
    "names 'os.system'": {"model": {"module": {"_target_": "os.system", "command": "touch W"}}},
    "names 'torch.hub.load'": {"data": [{"x": {"_target_": "torch.hub.load"}}]},
    "was not resolved": {"name": "${oc.env:IVQA_SECRET}"},
    "names of keys": {"model": {"module": {"endpoint": {"base_url": "http://x"}}}},
    "a path outside": {"data": {"cache_dir": "/witness"}},
    "positional": {"data": {"_target_": "ivqa.scenes.ScenesDataset", "_args_": ["/witness"]}},
    "more of a logger": {"logger": {"wandb": {"settings": {"x": 1}}}},
    "has the key 'defaults'": {"defaults": []},
    "has the key 'hydra'": {"hydra": {}},
}


@pytest.mark.parametrize("fault", _LOADED)
def test_a_loaded_run_cannot_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    monkeypatch.setenv("IVQA_SECRET", "sesame")
    folder = tmp_path / "run"
    folder.mkdir()
    text = json.dumps({"output_dir": "x", "artifacts": "/", **_LOADED[fault]})
    (folder / "config.yaml").write_text(text.replace("$", "\\x24"))  # an escape of YAML
    with pytest.raises(UserError, match=fault) as error:
        ivqa.load(folder)
    assert "sesame" not in str(error.value)


def test_components_and_own_packages_are_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def check(place: str, target: str, trust: tuple[str, ...] = ()) -> None:
        cfg = OmegaConf.create()
        OmegaConf.update(cfg, f"{place}._target_", target)
        check_targets(cfg, "resume=x", [conf_dir(), tmp_path / "my_conf"], trust)

    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "my_package.py").write_text("import os\n\nclass Model: ...\n")
    for place, target in {
        "model.module.optimizer": "torch.optim.SGD",
        "model.parts.legality_model.module.scheduler": "torch.optim.lr_scheduler.OneCycleLR",
        "vqa.module.network": "ivqa.vqa.MLB",
        "noise.image": "ivqa.robustness.Blur",
        "callbacks.mine": "pytorch_lightning.callbacks.Timer",
        "model.module.rewards.mine": "ivqa.diagnosis.GoalReward",
        "logger.mine": "pytorch_lightning.loggers.TensorBoardLogger",
    }.items():
        check(place, target)
        with pytest.raises(UserError, match=target):
            check("features", target)
    for target in (
        *("torch.hub.load", "transformers.AutoModel.from_pretrained", "my_package.Model"),
        *("torch.subprocess.Popen", "ivqa.nothing", "torch.optim.Optimizer.os"),
    ):
        with pytest.raises(UserError, match=target):
            check("model.module.optimizer", target)
    check("model.module", "my_package.Model", ("my_package",))
    with pytest.raises(UserError, match=r"my_package\.os\.system"):
        check("model.module", "my_package.os.system", ("my_package",))
    (tmp_path / "my_conf" / "ranker").mkdir(parents=True)
    (tmp_path / "my_conf" / "ranker" / "mine.yaml").write_text("_target_: my_package.Ranker\n")


def test_own_settings_are_those_of_the_command_line(tmp_path: Path) -> None:
    kept = stored_overrides(["model=mlb", "trust=[os]", "+trust=[os]", "seed=2"], tmp_path, [])
    assert kept == ["model=mlb", "seed=2"]
    own = own_settings(["-m", "vqa=openai", "+a={b:{c:1},d:[2]}", "trust=[p,'q']", "seed=1,2"])
    assert own.trust == ("p", "q")
    assert own.keys == {"model", "a.b.c", "a.d", "trust", "seed"}


def test_a_checkpoint_cannot_run_code(tmp_path: Path) -> None:
    witness, file = tmp_path / "witness", tmp_path / "model.ckpt"

    class Attack:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return os.system, (f"touch {witness}",)

    torch.save({"state_dict": Attack()}, file)
    assert zipfile.is_zipfile(file)
    with pytest.raises(UserError, match="is not a readable checkpoint"):
        read_weights(file)
    assert not witness.exists()
