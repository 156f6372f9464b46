"""Every invalid value is refused in one sentence that names its key; valid values are accepted."""

import os
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf, open_dict

from ivqa.config.checks import check_config
from ivqa.config.choices import choices_of
from ivqa.config.error_messages import describe
from ivqa.config.keys import keys_of
from ivqa.config.nodes import nodes
from ivqa.config.values import value_faults
from ivqa.errors import UserError

CONF = Path(__file__).parents[2] / "conf"

ANY = "a 1.5 true null 0 -1 nan 1e30 [1] {a:1} 99999999999"  # none is a valid count
COUNT = "a 1.5 null 0 -1"
OPTIONAL_COUNT = "a 1.5 true 0 -1"
SEED = "a 1.5 null -1 99999999999"
SHARE = "a null -0.1 1.1 nan inf"
DROPOUT = "a null -1 1 2 nan"
POSITIVE = "a null 0 -1 nan inf 1e300 1e-300"
NON_NEGATIVE = "a null -1 nan 1e300"
FLAG = "a 1 null"
FILE = "/no/such/file 5"

# Command and choices -> key -> invalid values, separated by spaces.
BAD: dict[str, dict[str, str]] = {
    "train": {
        "seed": SEED,
        "max_question_length": ANY,
        "min_word_count": COUNT,
        "num_workers": "a -1 1.5 null",
        "model.epochs": ANY,
        "model.gradient_clip": "a -1 nan 1e300",
        "model.num_answers": OPTIONAL_COUNT,
        "model.monitor": "null 5",
        "model.monitor_mode": "a null 1",
        "model.image_features": "concepts [1]",
        "model.length_window": "a 0",
        "model.module.optimizer.lr": "0 a 1e30 -1 nan null true",
        "model.module.network._partial_": "null a 1",
        "command": "null 5 a",
        "model.module.network.joint_size": "-1 a 1.5 null",
        "model.module.network.latent_size": COUNT,
        "model.module.network.hidden_size": COUNT,
        "model.module.network.dropout": DROPOUT,
        "model.module.network.word_dropout": DROPOUT,
        "model.module.network.feed_condition": FLAG,
        "model.module.kl_schedule.steps": COUNT,
        "model.module.free_nats": NON_NEGATIVE,
        "model.module.free_nats_pull": FLAG,
        "model.module.max_length": COUNT,
        "model.module.scheduler.num_warmup_steps": "a -1 1.5 null",
        "data.seed": SEED,
        "data.images.train": "0 a -1 1.5 99999999",
        "data.questions_per_image": COUNT,
        "data.balanced": FLAG,
        "features.epochs": COUNT,
        "features.num_concepts": COUNT,
        "features.image_size": "a 0 8 1.5",
        "features.learning_rate": "0 a -1 nan 1e30",
        "features.weights": FILE,
        "trainer.max_epochs": "a 0 -1 1.5 true",
        "trainer.precision": "nothing null",
        "trainer.accelerator": "nothing null 5",
        "trainer.strategy": "nothing",
        "trainer.devices": "0 1.5 true [a]",
        "trainer.limit_train_batches": "a 0 1.5 -1",
        "trainer.limit_val_batches": "a 0 1.5 -1",
        "trainer.gradient_clip_val": "a -1 nan",
        "trainer.log_every_n_steps": "a -1",
        "callbacks.best.mode": "a null",
        "callbacks.last.every_n_train_steps": "a 0",
        "callbacks.step_seed.seed": SEED,
        "callbacks.progress.leave": "a",
    },
    "evaluate callbacks=robustness": {
        "split": "null 5",
        "ckpt": "/no/such/file null none 5",
        "questions": "/no/such/folder 5",
        "ranker.lam": "a 0 -1 nan inf -inf 1e300 1e-300",
        "ranker.positive": FLAG,
        "ranker.deduplicate": "a 0 1 2",
        "ranker.on_uncertified": "1 never null",
        "encoder.size": COUNT,
        "encoder.longest": COUNT,
        "encoder.min_count": COUNT,
        "bqd.splits": "train [] null",
        "noise.levels": COUNT,
        "noise.a_level": COUNT,
        "noise.exclude_duplicates": FLAG,
        "callbacks.robustness.num_questions": OPTIONAL_COUNT,
        "callbacks.robustness.every_n_epochs": "a -1 null",
        "callbacks.robustness.batch_size": COUNT,
        "callbacks.robustness.resamples": COUNT,
        "callbacks.robustness.seed": SEED,
        "r_score.tolerance": "-0.1 a 1.5",
        "r_score.limit": "0 -1 a 1.5",
        "callbacks.robustness.noise": "null 5 a",
        "model.benchmark.num_latents": COUNT,
        "model.benchmark.beam_size": COUNT,
        "model.benchmark.num_samples": COUNT,
        "model.benchmark.temperature": POSITIVE,
    },
    "evaluate task=score": {"predictions": f"{FILE} [] [/no/such/file]"},
    "evaluate task=compare": {"compare": "x [/no/such/a,/no/such/b]"},
    "evaluate task=human_study": {
        "human": f"{FILE} [] [/no/such/file]",
        "runs": "x [] [/no/such/a]",
        "study": "/no/such/folder 5",
        "num_images": "-1 0 a 1.5",
        "resamples": f"{COUNT} 99",
        "metrics": "5 a",
    },
    "evaluate task=challenge": {"runs": "x [] [/no/such/a]"},
    "evaluate task=correlate": {"runs": "x [] [/no/such/a]", "targets": "[] a 5"},
    "evaluate task=write_noise": {"write_noisy_questions": FLAG},
    "evaluate task=rank": {
        "k": COUNT,
        "num_questions": "0 -3 a 1.5",
        "part_size": COUNT,
        "num_shards": COUNT,
        "shard": "a -1 null",
    },
    "evaluate task=merge": {"shards": "/no/such/folder 5"},
    "diagnose": {
        "num_images": "-1 0 a 1.5",
        "pool": "some null",
        "num_top_answers": COUNT,
        "num_latents": COUNT,
        "distinct": COUNT,
        "legality": "2 nan -1 a",
        "annotations": FILE,
        "num_noisy_questions": OPTIONAL_COUNT,
        "model.part_ckpt.legality_model": "/no/such/file null",
        "model.module.objective.num_samples": COUNT,
        "model.module.objective.temperature": POSITIVE,
        "model.module.objective.baseline": "a null",
        "model.module.objective.latent": "a null",
        "model.module.objective.entropy_weight": NON_NEGATIVE,
        "model.module.objective.kl_weight": NON_NEGATIVE,
        "model.module.objective.supervised_weight": NON_NEGATIVE,
        "model.epoch_steps": "a 0 1.5 null",
        "model.val_batches": "a 0 1.5 null",
        "model.parts.questioner.epochs": COUNT,
        "model.parts.legality_model.module.own_share": "a -1 1",
        "model.parts.legality_model.module.temperatures": "a [0] []",
        "model.parts.legality_model.module.kept": "a 0 2",
        "model.parts.legality_model.module.network.widths": "a [0] []",
        "model.module.rewards.legality.threshold": "a -1 2 nan",
        "vqa.epochs": COUNT,
        "vqa.module.optimizer.lr": "0 a 1e30",
        "vqa.module.targets": "a null",
        "vqa.module.network.joint_size": COUNT,
        "vqa.module.network.num_glimpses": COUNT,
        "question_encoder.size": COUNT,
        "question_encoder.cell": "a null",
        "question_encoder.dropout": DROPOUT,
    },
    "train model=hiecoatt": {
        "model.module.optimizer.betas": "a [1,2] [0.9]",
        "model.module.network.attention_size": OPTIONAL_COUNT,
        "model.module.network.num_layers": COUNT,
    },
    "train model=mcb": {
        "model.module.network.size": COUNT,
        "model.module.network.pool": COUNT,
        "model.module.network.standardise": FLAG,
    },
    "train model=mutan": {"model.module.network.rank": COUNT},
    "train model=lstm_qi": {"model.module.network.initializer_range": "a 0 -1"},
    "train model=n2nmn": {
        "model.module.network.max_layout": COUNT,
        "model.module.network.search_after": "a -1",
        "model.module.network.map_size": COUNT,
    },
    "train model=skip_thoughts": {
        "model.module.network.size": f"{COUNT} 7",
        "model.module.reconstruction": NON_NEGATIVE,
        "model.module.unknown": "a -1 1",
    },
    "evaluate model=hf_generative model.path=x": {
        "model.module.device": "nothing cuda:77",
        "model.module.dtype": "nothing null",
        "model.module.chat": "a",
        "model.module.max_new_tokens": COUNT,
        "model.pool_answers": COUNT,
        "model.candidates": FILE,
    },
    "evaluate model=openai model.path=x": {
        "model.base_url": "localhost:8000 ftp://x null",
        "model.workers": COUNT,
        "model.max_requests": "a -1 1.5",
        "model.module.max_side": COUNT,
        "model.module.lower_case": FLAG,
        "model.module.scoring.phi": "a null",
        "model.module.scoring.num_samples": COUNT,
        "model.module.scoring.temperature": POSITIVE,
        "model.module.endpoint.timeout": POSITIVE,
        "model.module.endpoint.retries": "a -1 1.5 null",
    },
    "evaluate model=hf_classifier model.path=x": {"model.module.score": "a null"},
    "train features=resnet50": {"features.arch": "nothing null", "features.batch_size": COUNT},
    "evaluate callbacks=robustness noise=image_gaussian": {
        "noise.step": POSITIVE,
        "noise.seed": SEED,
    },
    "evaluate callbacks=robustness noise=image_jpeg": {"noise.qualities": "a [] [0] [200] 5"},
    "evaluate callbacks=robustness noise=image_occlusion": {"noise.step": POSITIVE},
    "evaluate callbacks=robustness noise=vqabq": {"noise.thresholds": "a [] [0.1,0.2] [-1,0,0]"},
    "evaluate callbacks=robustness noise=bqd": {"noise.path": FILE},
    "evaluate callbacks=robustness noise=word_shuffling": {"noise.levels": COUNT},
    "evaluate encoder=word_vectors": {"encoder.path": FILE},
    "evaluate encoder=skip_thoughts encoder.path=.": {
        "encoder.kind": "a null",
        "encoder.use_eos": FLAG,
        "encoder.path": FILE,
    },
    "evaluate ranker=bleu1": {"ranker.order": COUNT},
    "evaluate ranker=random": {"ranker.seed": SEED},
    "train model=mlb augment=word_shuffling": {
        "augment.probability": SHARE,
        "augment.num_questions": OPTIONAL_COUNT,
    },
    "train data=vqa_v2 data.root=.": {"data.version": "3 a null", "data.train": "5 [a]"},
    "train logger=wandb": {"logger.wandb.project": "[a]"},
}

# Values that are invalid only in combination with others.
TOGETHER = [
    ("train", "model.monitor=val/nothing"),
    ("train", "model.monitor=val"),
    ("train", "callbacks.best.monitor=val/vqa_accuracy"),
    ("train model=ivqa_image_only", "model.monitor=val/kl"),
    ("train model=mlb", "model.monitor=val/loss"),
    ("train model=mlb", "model.num_answers=null"),
    ("diagnose", "model.monitor=val/diversityy"),
    ("diagnose", "vqa.monitor=val/reward"),
    ("diagnose", "distinct=30"),
    ("diagnose", "vqa.num_answers=null"),
    ("diagnose", "model.parts.legality_model.monitor=val/loss"),
    ("diagnose", "model.module.objective.num_samples=1"),
    ("train", "trainer.devices=9999"),
    ("train", "trainer.devices=nothing"),
    ("train", "trainer.accelerator=tpu"),
    ("train", "data.val=nothing"),
    ("evaluate", "split=nothing"),
    ("evaluate callbacks=robustness", "bqd.splits=[train,nothing]"),
    ("evaluate task=rank", "shard=1"),
    ("evaluate callbacks=robustness", "ranker.alpha=0.1"),
    ("evaluate callbacks=robustness", "r_score.tolerance=0.2"),
    ("evaluate callbacks=robustness", "r_score.limit=0.0005"),
    ("evaluate callbacks=robustness", "ranker.lam=null"),
    ("train model=legality", "model.module.network.maps=[32]"),
    ("train data=vqa_json", "data.root=''"),
    ("train data=vqa_json", "data.root='http://host/data'"),
    ("train data=gqa", "data.root='s3://bucket/gqa'"),
]

VALID = [
    "train seed=0 model.batch_size=1 model.gradient_clip=null model.gradient_clip=5",
    "train model.module.network.joint_size=0 model.module.optimizer.lr=1",
    "train trainer.limit_val_batches=5 trainer.limit_train_batches=0.5 trainer.devices=auto",
    "train trainer.devices=1 trainer.precision=32 +trainer.fast_dev_run=true",
    "train trainer.max_epochs=null +trainer.max_steps=10 callbacks.best=null",
    "train model.monitor=val/kl callbacks.best.monitor=val/loss +callbacks.best.save_top_k=-1",
    "train callbacks=robustness callbacks.robustness.every_n_epochs=1 model=mlb "
    "model.monitor=robustness/r_score",
    "train model=mlb callbacks.last.every_n_train_steps=10",
    "train model.module.optimizer._target_=torch.optim.AdamW model.num_answers=null",
    "evaluate callbacks=robustness split=val ranker.lam=1e-8 ranker.deduplicate=0.98",
    "evaluate callbacks=robustness ranker.lam=null ranker.alpha=1e-6",
    "evaluate model=mlb callbacks=consistency model@measuring_models.parts.witness=n2nmn",
    "evaluate model=mlb callbacks=consistency model@measuring_models.parts.witness=mlb "
    "measuring_models.parts.witness.epochs=1",
    "evaluate task=rank shard=3 num_shards=4 num_questions=null k=1",
    "evaluate data=vqa_v2 data.root=. split=test2015",
    "diagnose legality=0 num_images=null num_noisy_questions=null "
    "model.module.objective.entropy_weight=0",
    "diagnose model@vqa=hf_blip vqa.path=x compare=[]",
]


@cache
def _composed(command: str) -> DictConfig:
    name, *choices = command.split()
    with initialize_config_dir(str(CONF), version_base="1.3"):
        return compose(name, choices)


def _faults(cfg: DictConfig) -> list[str]:
    return value_faults(cfg, [*nodes(cfg)])


def _overridden(cfg: DictConfig, overrides: Mapping[str, str]) -> DictConfig:
    changed = cfg.copy()
    for key, text in overrides.items():
        value = OverridesParser.create().parse_override(f"{key}={text}").value()
        OmegaConf.update(changed, key, value)
    return changed


def _rounds(keys: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """One invalid value of each key at a time, until all have been tried."""
    for number in range(max(len(values.split()) for values in keys.values())):
        rows = {key: values.split()[number:] for key, values in keys.items()}
        yield {key: row[0] for key, row in rows.items() if row}


@pytest.mark.parametrize("command", BAD)
def test_a_bad_value_is_one_sentence_that_names_key_and_value(command: str) -> None:
    cfg = _composed(command)
    for overrides in _rounds(BAD[command]):
        faults = _faults(_overridden(cfg, overrides))
        told = {fault.split("=", 1)[0].split("[")[0]: fault for fault in faults}
        assert told.keys() == overrides.keys()
        assert len(faults) == len(told)
        for key, fault in told.items():
            assert "\n" not in fault
            assert ": must be " in fault or ": there " in fault or "GPUs" in fault
            assert fault.removeprefix(key)[0] in "=["


def test_the_cases_cover_all_groups() -> None:
    keys = [item for group in BAD.values() for item in group.items()]
    cases = [(key, value) for key, values in keys for value in values.split()]
    assert len(cases) + len(TOGETHER) >= 235
    groups = {key.split(".")[0] for key, _ in cases} - {"hydra"}
    assert groups >= {
        *("augment", "bqd", "callbacks", "data", "encoder", "features", "logger", "model"),
        *("noise", "question_encoder", "ranker", "trainer", "vqa"),
    }


@pytest.mark.parametrize(("command", "override"), TOGETHER)
def test_values_that_do_not_fit_others_are_refused(command: str, override: str) -> None:
    key, value = override.split("=")
    with pytest.raises(UserError) as raised:
        check_config(_overridden(_composed(command), {key: value}))
    message = str(raised.value)
    assert message.startswith("configuration: ")
    assert key.rsplit(".", 1)[0] in message
    assert key.rsplit(".", 1)[1].split("[")[0] in message if "." in key else key in message
    assert message.count("; ") <= 1
    assert "\n" not in message


@pytest.mark.parametrize("command", VALID)
def test_valid_values_are_accepted(command: str) -> None:
    check_config(_composed(command))


def test_the_key_that_the_user_wrote_is_named() -> None:
    """Keys that refer to it, such as trainer.max_epochs, are not reported too."""
    cfg = _composed("train")
    bad = {"model.batch_size": "0", "model.epochs": "a", "model.monitor": "null"}
    faults = _faults(_overridden(cfg, bad))
    assert {fault.split("=")[0] for fault in faults} == bad.keys()
    assert len(faults) == len(bad)
    (fault,) = _faults(_overridden(cfg, {"model.batch_size": "0"}))
    assert fault == "model.batch_size=0: must be an integer from 1 to 1,000,000,000"


# Keys that a command cannot do without, with the groups that the rest of the command chooses.
DELETED = {
    "train model=mlb": "model.module model.module.network model.module._target_ model.batch_size "
    "model.module.network._partial_ model.benchmark data._target_ logger logger.csv._target_ seed "
    "callbacks.best._target_ features augment artifacts trust question_encoder._target_ command",
    "diagnose": "model.parts model.parts.legality_model model.module.rewards pool vqa "
    "model.part_ckpt.legality_model model.parts.questioner.module num_images vqa.module.network",
    "evaluate callbacks=robustness": "ranker ranker._target_ encoder noise bqd r_score split",
    "evaluate task=rank": "k shard ranker bqd.splits",
}


def _checked(command: str) -> None:
    """Composes and checks a configuration as a command does, with the overrides known to Hydra."""
    name, *overrides = command.split()
    GlobalHydra.instance().clear()
    with initialize_config_dir(str(CONF), version_base="1.3"):
        cfg = compose(name, overrides, return_hydra_config=True)
        HydraConfig.instance().set_config(cfg)
        with open_dict(cfg):
            del cfg["hydra"]
        check_config(cfg)


@pytest.mark.parametrize("command", DELETED)
def test_a_key_that_is_deleted_but_needed_is_named(command: str) -> None:
    for key in DELETED[command].split():
        with pytest.raises((UserError, HydraException)) as raised:
            _checked(f"{command} ~{key}")
        name = command.split()[0]
        message = describe(raised.value, [f"~{key}"], conf_dir=CONF, config_name=name)
        assert f"leave ~{key} out" in message
        assert "must be set" not in message


@pytest.mark.parametrize(
    "override", ["~callbacks.best", "~logger.csv", "~model.module.scheduler", "~trainer.precision"]
)
def test_what_a_command_can_do_without_may_be_deleted(override: str) -> None:
    _checked(f"train model=mlb {override}")


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("evaluate model=hf_blip", "model.path must be set to a folder that save_pretrained wrote"),
        ("evaluate model=openai", "model.path must be set to the name of the served model"),
        ("evaluate encoder=word_vectors", "encoder.path must be set$"),
    ],
)
def test_a_missing_path_says_what_it_is(command: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        _checked(command)


@pytest.mark.parametrize("value", ["null", "5"])
def test_a_class_has_a_name(value: str) -> None:
    for key in ("model.module._target_", "data._target_", "callbacks.best._target_"):
        with pytest.raises(UserError, match=f"{key}={value}: must be the name of a class"):
            check_config(_overridden(_composed("train model=mlb"), {key: value}))


def test_all_faults_are_reported_at_once() -> None:
    with pytest.raises(UserError) as raised:
        check_config(_overridden(_composed("train"), {"seed": "a", "model.batch_size": "1.5"}))
    assert "seed=a: must be an integer from 0 to 4,294,967,295" in str(raised.value)
    assert "model.batch_size=1.5: must be an integer" in str(raised.value)


@pytest.mark.parametrize(
    "command",
    [
        *("train", "diagnose experiment=repair"),
        *(
            f"{command} task={task}"
            for command in ("evaluate", "diagnose")
            for task in choices_of("task", [CONF], command)
        ),
    ],
)
def test_every_key_at_the_top_has_a_type(command: str) -> None:
    cfg = _composed(command)
    assert {str(key) for key in cfg} <= keys_of(cfg, "").keys()
    for model in ("model", "vqa"):
        if cfg.get(model):
            known = keys_of(cfg[model], f"{model}.").keys() | {"prompt"}
            assert {str(key) for key in cfg[model]} <= known


def test_the_absent_file_of_a_list_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("[]")
    files = f"[{tmp_path}/a.json,{tmp_path}/b.json]"
    (fault,) = _faults(_overridden(_composed("evaluate task=score"), {"predictions": files}))
    assert fault == f"predictions[1]={tmp_path}/b.json: there is no such file"
    faults = _faults(_overridden(_composed("evaluate task=score"), {"predictions": "[]"}))
    assert faults == ["predictions=[]: must be text or a list that is not empty or null"]


@pytest.mark.parametrize(
    ("name", "of_file", "of_folder"),
    [
        ("absent", "there is no such file", "there is no such folder"),
        ("folder", "this is a folder, and a file is needed", None),
        ("file", None, "this is a file, and a folder is needed"),
        ("empty", "this file is empty; restore it", "this is a file, and a folder is needed"),
        ("pipe", "this is a pipe, and a file is needed", "this is a pipe, and a folder is needed"),
        ("/dev/null", "this is a device, and a file is needed", "this is a device, and a folder"),
        ("link", "a link to a file that does not exist", "a link to a folder that does not exist"),
        ("x" * 300, "cannot be read (File name too long)", "cannot be read (File name too long)"),
    ],
)
def test_a_path_says_what_is_there_instead(
    name: str, of_file: str | None, of_folder: str | None, tmp_path: Path
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("content")
    (tmp_path / "empty").touch()
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    os.mkfifo(tmp_path / "pipe")
    path = str(tmp_path / name)
    for task, key, reason in (
        ("task=score", "predictions", of_file),
        ("task=human_study", "human", of_file),
        ("task=evaluate", "ckpt", of_file and of_file.replace("such file", "such checkpoint")),
        ("task=human_study", "study", of_folder),
        ("task=merge", "shards", of_folder),
    ):
        faults = _faults(_overridden(_composed(f"evaluate {task}"), {key: f"'{path}'"}))
        own = [fault for fault in faults if fault.startswith(f"{key}=")]
        assert len(own) == (reason is not None)
        assert all(str(reason) in fault for fault in own)
