"""The command line: messages for misspelt and incomplete arguments, resume= and paths."""

import errno
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hydra import compose, initialize_config_dir
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import QuotedString
from hydra.errors import ConfigCompositionException, HydraException, InstantiationException
from omegaconf import OmegaConf
from omegaconf.errors import ConfigAttributeError

from ivqa.command_line import command_line, entry_point, quoted_path
from ivqa.config.choices import composed_choices, composition_error, leaf_keys
from ivqa.config.error_messages import describe, is_user_error
from ivqa.config.short_forms import expanded, shortened
from ivqa.errors import UserError
from ivqa.runs.resuming import continuing_command, program_name, recorded_command

CONF = Path(__file__).parents[2] / "conf"


def _error_of(*overrides: str) -> str:
    with (
        pytest.raises(HydraException) as raised,
        initialize_config_dir(str(CONF), version_base="1.3"),
    ):
        compose("train", overrides=list(overrides))
    return describe(raised.value, overrides, conf_dir=CONF, config_name="train")


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("modle=ivqa_vae", "there is no configuration key 'modle'; did you mean model"),
        ("model=ivqa_vea", "there is no model=ivqa_vea; did you mean ivqa_vae"),
        ("trainer.max_epoch=3", "did you mean trainer.max_epochs"),
        ("data=scene", "did you mean scenes"),
        ("seed=[1", "cannot read the override 'seed=[1'"),
    ],
)
def test_a_misspelt_override_names_the_nearest_valid_one(override: str, expected: str) -> None:
    message = _error_of(override)
    assert expected in message
    assert "\n" not in message


def _messages_of(command: str) -> list[str]:
    """What a command prints about arguments that do not compose."""
    name, *arguments = command.split()
    written = expanded(arguments, CONF, name)
    error = composition_error(written, [CONF], name)
    assert error is not None
    assert is_user_error(error)
    return re.split(
        "; (?!did|valid|a list|leave|write)",
        describe(error, written, conf_dir=CONF, config_name=name),
    )


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (
            "train modle=mlb trainr.max_epochs=3 data.rot=x",
            ["'modle'; did you mean model?", "did you mean trainer.max_epochs", "'data.rot'; did"],
        ),
        # The choice that was meant decides about the other keys.
        (
            "train model=mlbb model.module.network.num_glimpses=3 trainer.max_epoch=3",
            [
                "there is no model=mlbb; did you mean mlb or mlb2?",
                "did you mean trainer.max_epochs",
            ],
        ),
        (
            "train modle=mlb model.module.network.num_glimpsess=3",
            ["did you mean model?", "did you mean model.module.network.num_glimpses"],
        ),
        (
            "evaluate predictons=x data=vqa_jsn data.root=x sed=[1",
            ["cannot read the override 'sed=[1'", "did you mean vqa_json", "mean predictions?"],
        ),
        (
            "diagnose vqaa=mlb vqa=mlbb ~datas reward=gaol num_image=3",
            [
                "no model=mlbb",
                "no reward=gaol; did you mean goal",
                "'vqaa'; did you mean vqa",
                "'datas'; did you mean data",
                "'num_image'; did you mean num_images",
            ],
        ),
        ("diagnose judge=n2nm", ["there is no judge=n2nm; did you mean n2nmn?"]),
        (
            "train model=mlb,mutan seed=1,2 sedd=3",
            ["model=mlb,mutan: several values need -m", "list is seed=[1,2]", "did you mean seed"],
        ),
        (
            "train +model=mlb +seed=3",
            ["+model=mlb: this key is there", "+seed=3: this key is there"],
        ),
        (
            "train model=mlb reward=full export=datasets ~data=clevr",
            [
                "reward=full: train.py has no such group",
                "export=datasets: train.py has no such",
                "~data=clevr: this file is not among those chosen",
            ],
        ),
        (
            "diagnose vqa=null data=null features=5",
            ["vqa=null: choose a file of conf/model", "data=null: choose", "features=5: choose"],
        ),
        ("train trainer={max_epoch:3} sedd=1", ["did you mean trainer.max_epochs", "mean seed"]),
        (
            "train seed =3",
            ["'seed': Error parsing override 'seed'; write KEY=VALUE", "'=3'; write"],
        ),
        (
            "train model= foo=1",
            ["there is no model=; valid are hf_blip", "valid are answer_network"],
        ),
    ],
)
def test_all_arguments_that_do_not_compose_are_reported(command: str, expected: list[str]) -> None:
    messages = _messages_of(command)
    assert len(messages) == len(expected)
    for words in expected:
        assert sum(words in message for message in messages) == 1


def test_a_sweep_reports_all_misspelt_keys() -> None:
    """Its values are tried one by one, so the first stands for all."""
    arguments = ["-m", "model=mlb,mutan", "trainr.max_epochs=3", "sed=1,2"]
    error = composition_error(["model=mlb", "trainr.max_epochs=3", "sed=1"], [CONF], "train")
    assert error is not None
    message = describe(error, arguments, conf_dir=CONF, config_name="train")
    assert message.count("there is no configuration key") == 2
    assert "several values" not in message


def test_a_misspelt_key_of_a_task_is_recognised() -> None:
    error = ConfigCompositionException("Could not override 'predictons'")
    message = describe(error, ["predictons=x"], conf_dir=CONF, config_name="evaluate")
    assert "did you mean predictions?" in message
    message = describe(error, ["predictons=x"], conf_dir=CONF, config_name="train")
    assert "did you mean predictions?" not in message


def test_the_nearest_key_is_one_of_the_chosen_files() -> None:
    message = _error_of("features=resnet50", "features.wieghts=x.pt")
    assert "did you mean features.weights" in message
    assert "features.longest" not in _error_of("features=resnet50", "features.longes=3")


def test_resume_needs_a_run_and_a_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no run was started there"):
        command_line([f"resume={tmp_path}"])
    (tmp_path / "config.yaml").write_text("seed: 1\n")
    with pytest.raises(ValueError, match="the run has stored nothing yet; give its command again"):
        command_line([f"resume={tmp_path}"])


def test_resume_restores_the_overrides_of_the_run(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("seed: 1\n")
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / "last.ckpt").touch()
    (tmp_path / "overrides.yaml").write_text("- model=ivqa_vae\n- output_dir=x\n")
    arguments = command_line([f"resume={tmp_path}", "trainer.max_epochs=9"])
    assert arguments == [
        "model=ivqa_vae",
        f"resume={tmp_path}",
        "trainer.max_epochs=9",
        f"output_dir={tmp_path}",
    ]


def test_output_dir_of_a_multirun_is_the_sweep_directory() -> None:
    assert command_line(["-m", "seed=1,2", "output_dir=there"]) == [
        "-m",
        "seed=1,2",
        "hydra.sweep.dir=there",
    ]
    assert command_line(["output_dir=there"]) == ["output_dir=there"]


@pytest.mark.parametrize(
    ("given", "added"),
    [
        (["predictions=a.json", "split=val"], ["task=score"]),
        (["compare=[a,b]"], ["task=compare"]),
        (["human=a.json"], ["task=human_study"]),
        (["write_noisy_questions=true"], ["task=write_noise"]),
        (["predictions=a.json", "task=rank"], []),
        (["model=mlb"], []),
    ],
)
def test_a_key_of_one_task_alone_chooses_it(given: list[str], added: list[str]) -> None:
    assert expanded(given, CONF, "evaluate") == [*given, *added]
    if "task=rank" not in given:
        assert expanded(given, CONF, "train") == given


def test_the_tasks_of_another_command_are_not_taken() -> None:
    given = ["images=photos", "vqa=mlb"]
    written = ["images=photos", "model@vqa=mlb"]
    assert expanded(given, CONF, "diagnose") == [*written, "task=diagnose_pictures"]
    assert expanded(given, CONF, "evaluate") == [*written, "task=pictures"]
    with pytest.raises(UserError, match=r"run python evaluate\.py task=polls"):
        expanded(["task=polls"], CONF, "diagnose")
    with pytest.raises(UserError, match=r"run python diagnose\.py task=diagnose"):
        expanded(["task=diagnose", *given], CONF, "evaluate")


def test_short_forms_of_groups_are_written_out() -> None:
    given = ["vqa=mlb", "reward=goal,full", "vqa.path=x", "seed=1"]
    written = ["model@vqa=mlb", "reward@model.module.rewards=goal,full", "vqa.path=x", "seed=1"]
    assert expanded(given, CONF, "diagnose") == written
    assert [shortened(item) for item in written] == given


def test_a_judge_chooses_the_file_of_its_model() -> None:
    group = "model@measuring_models.parts"
    given = ["judge=[mcb, n2nmn]", "judge.mcb.epochs=1"]
    changed = ["judge=[mcb, n2nmn]", "measuring_models.parts.mcb.epochs=1"]
    added = [f"+{group}.mcb=mcb", f"+{group}.n2nmn=n2nmn"]
    assert expanded(given, CONF, "diagnose") == [*changed, *added]
    # A resumed run has stored both; the last judge= counts.
    again = [*changed, *added, "judge=null"]
    assert expanded(again, CONF, "diagnose") == again
    assert expanded([*changed, *added], CONF, "diagnose") == [*changed, *added]
    assert expanded(["judge=mcb,mlb"], CONF, "diagnose")[1:] == [
        f"+{group}.mcb=mcb",
        f"+{group}.mlb=mlb",
    ]


def test_reference_lists_inner_keys() -> None:
    keys = leaf_keys(composed_choices([], [CONF], "train"))
    assert {"seed", "trainer.max_epochs", "callbacks.best.save_top_k"} - set(keys) <= {
        "callbacks.best.save_top_k"
    }
    assert "callbacks.last.every_n_train_steps" in keys


def _message(
    error: Exception,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> str:
    # Within ivqa, because an error of another module is one of the user's own code.
    scope: dict[str, Any] = {"__name__": "ivqa.failing", "error": error}
    exec(compile("def fails(cfg, conf_dir):\n    raise error\n", "fails.py", "exec"), scope)
    monkeypatch.setattr("ivqa.command_line.run_task", scope["fails"])
    (tmp_path / "some.yaml").write_text(
        "defaults: [_self_]\nhydra: {run: {dir: '${oc.env:RUN_DIR}'}}\n"
    )
    with pytest.raises(SystemExit) as stopped:
        entry_point(tmp_path, "some")
    assert stopped.value.code == 1
    return capsys.readouterr().err


def _instantiation(cause: Exception) -> InstantiationException:
    error = InstantiationException("Error in call to target 'x'\nfull_key: model.module")
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (UserError("seed=a is wrong"), "error: seed=a is wrong\n"),
        (
            PermissionError(13, "Permission denied", "/there"),
            "error: /there: permission denied; change its permissions, or choose another folder\n",
        ),
        (OSError(28, "No space left on device"), "MB are free); make room on the disk\n"),
        (_instantiation(UserError("rank=0")), "error: rank=0 (configuration node model.module)\n"),
    ],
)
def test_an_error_of_the_user_is_one_sentence(
    error: Exception,
    sentence: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ivqa.command_line._say_start", lambda: None)
    monkeypatch.setenv("RUN_DIR", str(tmp_path / "run"))
    monkeypatch.setattr("sys.argv", ["some.py"])
    shown = _message(error, capsys, tmp_path, monkeypatch)
    assert shown.endswith(sentence)
    assert shown.count("\n") == 1


@pytest.mark.parametrize(
    "error",
    [
        ValueError("shapes differ"),
        ZeroDivisionError("division by zero"),
        FileNotFoundError(2, "No such file", "x"),
        ConfigAttributeError("Key 'modle' is not in struct"),
        _instantiation(TypeError("unexpected argument")),
    ],
)
def test_every_other_error_is_a_bug_with_its_traceback(
    error: Exception,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("RUN_DIR", str(tmp_path / "run"))
    monkeypatch.setattr("sys.argv", ["some.py"])
    shown = _message(error, capsys, tmp_path, monkeypatch)
    assert "Traceback (most recent call last)" in shown
    assert "in fails" in shown
    assert f"error: {type(error).__name__}: this is a bug in ivqa" in shown


PATHS = [
    *("a=b", "a[1]", "[1]", "{a: 1}", "a,b", "it's", 'a "word"', "a 'b'", "a b", "a(b)", "a:b"),
    *("été", "图像", "2026", "1e3", "true", "a;b", "a#b", "a%b", "a+b", "a@b", "~a"),
    *("a&b", "a*b", "a?b", "a=b [1], 'x' é", "x=[1,2]", "a\\'b"),
]


@pytest.mark.parametrize("key", ["output_dir", "ckpt", "data.root", "vqa.path", "resume"])
def test_a_path_may_hold_any_character(key: str) -> None:
    parser = OverridesParser.create()
    for name in PATHS:
        for path in (name, f"/there/{name}", f"{name}/below"):
            read = parser.parse_override(quoted_path(f"{key}={path}")).value()
            assert str(read.text if isinstance(read, QuotedString) else read) == path


def test_paths_reach_the_configuration() -> None:
    path = "/there/a=b [1], 'x' é"
    keys = ("output_dir", "ckpt", "data.root", "vqa.path")
    with initialize_config_dir(str(CONF), version_base="1.3"):
        arguments = command_line(
            ["data=vqa_json", "model@vqa=hf_blip", *(f"{k}={path}" for k in keys)]
        )
        cfg = compose("evaluate", arguments)
    assert [OmegaConf.select(cfg, key) for key in keys] == [path] * len(keys)


def test_a_path_that_hydra_can_read_stays_as_it_is() -> None:
    for argument in (
        "ckpt=a/b-1.ckpt",
        "ckpt='a,b'",
        "output_dir=a\\=b",
        "ckpt=null",
        "model=a,b",
        "output_dir=out/${name}",
        "predictions=[a.json,b.json]",
        "ckpt=auto",
    ):
        assert command_line([argument]) == [argument]


def test_a_comma_sweeps_with_m_alone() -> None:
    assert command_line(["-m", "ckpt=a,b"]) == ["-m", "ckpt=a,b"]
    assert command_line(["ckpt=a,b"]) == ["ckpt='a,b'"]
    swept = command_line(["-m", "output_dir=a,b", "ckpt=a=b"])
    assert swept == ["-m", "hydra.sweep.dir='a,b'", "ckpt='a=b'"]


@pytest.mark.parametrize("name", ["a=b", "a,b [1] 'x' \u00e9"])
def test_a_run_in_such_a_folder_resumes(name: str, tmp_path: Path) -> None:
    run_dir = tmp_path / name
    (run_dir / "checkpoints").mkdir(parents=True)
    (run_dir / "config.yaml").write_text("seed: 1\n")
    (run_dir / "checkpoints" / "last.ckpt").touch()
    (run_dir / "overrides.yaml").write_text(OmegaConf.to_yaml([f"output_dir={run_dir}", "seed=2"]))
    arguments = command_line([f"resume={run_dir}"])
    with initialize_config_dir(str(CONF), version_base="1.3"):
        cfg = compose("train", arguments)
    assert (cfg.output_dir, cfg.resume, cfg.seed) == (str(run_dir), str(run_dir), 2)


@pytest.mark.parametrize(
    ("number", "is_users"),
    [
        (errno.ENOSPC, True),
        (errno.EROFS, True),
        (errno.EDQUOT, True),
        (errno.EACCES, True),
        (errno.EBADF, False),
    ],
)
def test_errors_of_the_disk_are_the_user_s_to_mend(number: int, is_users: bool) -> None:
    error = OSError(number, os.strerror(number), "artifacts/data")
    assert is_user_error(error) is is_users
    told = describe(error, [], conf_dir=Path("conf"), config_name="train")
    if is_users:
        assert told.startswith(f"artifacts/data: {os.strerror(number).lower()}")
        assert "choose " in told or "make room" in told


def _started(folder: Path, mode: str = "RUN", overrides: Sequence[str] = ()) -> None:
    """Makes this process one that Hydra started with this directory."""
    with initialize_config_dir(str(CONF), version_base="1.3"):
        cfg = compose("train", [f"hydra.mode={mode}"], return_hydra_config=True)
    cfg.hydra.runtime.output_dir = cfg.hydra.sweep.dir = str(folder)
    cfg.hydra.overrides.task = list(overrides)
    HydraConfig.instance().set_config(cfg)


def test_the_command_that_continues_is_complete_or_absent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_dir = tmp_path / "it's [my] run"
    run_dir.mkdir()
    monkeypatch.setattr("sys.argv", ["/some where/train.py"])
    monkeypatch.setattr(HydraConfig.instance(), "cfg", None)
    given = ["--config-dir", "my conf", "model=mine", "trust=[mine]", "output_dir=x", "seed=2"]
    assert continuing_command(given) is None  # nothing was started
    _started(run_dir)
    assert continuing_command(given) is None
    (run_dir / "config.yaml").touch()
    assert continuing_command(given) is None
    (run_dir / "overrides.yaml").touch()
    line = continuing_command(given)  # it wrote nothing to continue from: its whole command
    assert line is not None
    assert shlex.split(line) == [
        *(sys.executable, "/some where/train.py", "--config-dir", "my conf"),
        *("model=mine", "trust=[mine]", "seed=2", f"output_dir={run_dir}"),
    ]
    (run_dir / "progress.json").touch()
    line = continuing_command(given)
    assert line is not None
    assert shlex.split(line) == [
        *(sys.executable, "/some where/train.py", f"resume={run_dir}"),
        *("--config-dir", "my conf", "trust=[mine]"),
    ]
    monkeypatch.setattr("sys.argv", ["/bin/ivqa"])
    assert continuing_command(["seed=2"]) == shlex.join(["/bin/ivqa", "train", f"resume={run_dir}"])
    monkeypatch.setattr("sys.argv", ["/ivqa/__main__.py"])
    module = [sys.executable, "-m", "ivqa", "train", f"resume={run_dir}"]
    assert continuing_command(["seed=2"]) == shlex.join(module)

    _started(run_dir, "MULTIRUN")
    assert continuing_command(given) is None
    (run_dir / "study.journal").touch()  # a sweep continues with its own command
    line = continuing_command(["sweep=rewards", "output_dir=x"])
    assert line == shlex.join([*module[:4], "sweep=rewards", f"output_dir={run_dir}"])


@pytest.mark.parametrize(
    ("started", "expected"),
    [
        ("/some where/train.py", ["python", "train.py"]),
        ("/bin/ivqa", ["ivqa", "train"]),
        ("/ivqa/__main__.py", ["python", "-m", "ivqa", "train"]),
    ],
)
def test_the_recorded_command_is_what_the_user_typed(
    started: str, expected: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", [started])
    monkeypatch.setattr(HydraConfig.instance(), "cfg", None)
    program = program_name("train")
    assert program == expected
    given = ["vqa=mlb", "--config-dir", "my conf", "reward=colour", "data.root=a=b [1]"]
    _started(tmp_path)
    assert recorded_command(program, given) == [*expected, *given]
    # A job of a multirun has overrides of its own, and a resumed run those that it began with.
    task = ["model@vqa=mlb", "reward@model.module.rewards=colour", "seed=2", "resume=x"]
    for mode, typed in (("MULTIRUN", [*given, "seed=1,2", "-m"]), ("RUN", [*given, "resume=x"])):
        _started(tmp_path, mode, task)
        assert recorded_command(program, typed) == [
            *(*expected, "--config-dir", "my conf", "vqa=mlb", "reward=colour", "seed=2")
        ]


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("evaluate image=absent.png", "image=absent.png: there is no such file"),
        ("train data=vqa_v2 data.root=absent", "data root absent does not exist"),
    ],
)
def test_the_first_line_and_missing_files_need_no_pytorch(
    command: str, reason: str, tmp_path: Path
) -> None:
    name, *overrides = command.split()
    python = [sys.executable, "-X", "importtime", str(Path(__file__).parents[2] / f"{name}.py")]
    found = subprocess.run(
        [*python, *overrides, "output_dir=run"], cwd=tmp_path, capture_output=True, text=True
    )
    assert found.returncode == 1
    lines = found.stderr.splitlines()
    imported = {line.rpartition("|")[2].strip() for line in lines}
    said = [line for line in lines if not line.startswith("import time:")]
    assert said[0] == f"{name}: run directory {tmp_path / 'run'}"
    assert said[-1].startswith(f"error: {reason}")
    assert "hydra" in imported
    assert not imported & {"torch", "pytorch_lightning", "pandas", "matplotlib"}
