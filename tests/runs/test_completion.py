"""Completion of the command line, in a real bash and a real zsh too."""

import os
import pty
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ivqa.runs.completion import completions

PROJECT = Path(__file__).parents[2]
CONF = PROJECT / "conf"
MODELS = sorted(file.stem for file in (CONF / "model").glob("*.yaml"))


def _completed(line: str, task: str = "train") -> list[str]:
    *before, word = line.split(" ")
    return list(completions(word, [item for item in before if item], CONF, task))


def test_a_choice_is_completed() -> None:
    generators = [f"model={name}" for name in MODELS if name.startswith("ivqa_")]
    assert len(generators) > 5
    assert _completed("model=ivqa_") == generators
    assert _completed("seed=2 noise@noise.image=image_bl") == ["noise@noise.image=image_blur"]


def test_short_forms_are_completed() -> None:
    assert _completed("vqa=m", "diagnose") == [f"vqa={m}" for m in MODELS if m.startswith("m")]
    assert _completed("vqa=ivqa_", "diagnose") == []  # a question generator answers nothing
    assert _completed("vqa=mlb reward=goal_", "diagnose") == ["reward=goal_legality"]
    assert _completed("predi", "evaluate") == ["predictions="]


def test_the_last_choice_of_a_sweep_is_completed() -> None:
    assert _completed("-m model=mlb,mutan_") == ["model=mlb,mutan_noatt"]


def test_keys_belong_to_the_chosen_files() -> None:
    assert _completed("trainer.max_e") == ["trainer.max_epochs="]
    assert _completed("features=timm features.ar") == ["features.arch="]
    assert _completed("features.ar") == []
    assert _completed("vqa=mlb vqa.ba", "diagnose") == ["vqa.batch_size="]
    assert "model." in _completed("mode")
    assert "model=" in _completed("mode")


def test_sweeps_of_the_command_are_completed() -> None:
    assert _completed("sw", "diagnose") == ["sweep="]
    assert _completed("sweep=", "diagnose") == ["sweep=rl_rewards"]
    assert _completed("sweep=", "evaluate") == ["sweep=ivqa_vae", "sweep=lasso_lambda"]
    assert _completed("sw") == []  # train.py has none


def test_values_and_options_are_completed() -> None:
    assert _completed("pretrained=t") == ["pretrained=true"]
    assert _completed("max_question_length=") == ["max_question_length=26"]
    assert _completed("data=vqa_v2 data.root=") == []  # it must be set
    assert "--config-dir" in _completed("--conf")


def test_nothing_is_completed_from_files_that_do_not_compose() -> None:
    assert _completed("model=nothing trainer.max_e") == ["trainer.max_epochs="]


def test_choices_of_the_user_are_completed(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "my_model.yaml").write_text("defaults: [mlb]\n")
    assert _completed(f"--config-dir {tmp_path} model=my") == ["model=my_model"]


BASH = """
cd {project}
eval "$({python} train.py -sc install=bash)"
complete -p python
complete_words() {{
  COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_POINT=${{#COMP_LINE}}; COMPREPLY=()
  _ivqa_completion; echo "${{COMPREPLY[@]}}"
}}
COMP_LINE='{python} train.py model=ivqa_t' complete_words {python} train.py model = ivqa_t
COMP_LINE='{python} train.py model=ivqa_t' complete_words {python} train.py model=ivqa_t
COMP_LINE='{python} diagnose.py vqa=' complete_words {python} diagnose.py vqa =
COMP_LINE='{python} {other} model=ivqa_t' complete_words {python} {other} model=ivqa_t
eval "$({python} train.py -sc uninstall=bash)"
complete -p python || type _ivqa_completion || true
"""


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_completes_words_that_it_splits_at_equals_signs_or_not(tmp_path: Path) -> None:
    other = tmp_path / "other.py"
    other.write_text("print('run')")
    script = BASH.format(project=PROJECT, python=sys.executable, other=other)
    found = subprocess.run(["bash", "--norc", "-c", script], capture_output=True, text=True)
    rule, split, whole, vqa, other = found.stdout.split("\n")[:5]
    assert rule == "complete -o default -o nospace -F _ivqa_completion python"
    # Readline keeps "model=" if its word begins after the equals sign.
    assert (split, whole) == ("ivqa_transformer", "model=ivqa_transformer")
    assert {"mlb", "n2nmn", "openai"} <= set(vqa.split())
    assert other == ""  # another script is not run
    assert "no completion specification" in found.stderr
    assert "_ivqa_completion: not found" in found.stderr


def _typed_in_zsh(lines: list[str], last: str, wanted: str, seconds: float = 120) -> str:
    """What an interactive zsh shows for `lines` and for the tab key behind `last`."""
    pid, terminal = pty.fork()
    if pid == 0:
        environment = {**os.environ, "TERM": "dumb", "PS1": "> ", "COLUMNS": "200"}
        os.execvpe("zsh", ["zsh", "-f", "-i"], environment)
    shown, end = "", time.monotonic() + seconds
    try:
        os.write(terminal, "".join(f"{line}\n" for line in lines).encode())
        while time.monotonic() < end and wanted not in shown:
            if select.select([terminal], [], [], 1)[0]:
                shown += os.read(terminal, 4096).decode(errors="replace")
                if "is ready" in shown.split(lines[-1])[-1] and last:
                    os.write(terminal, f"{last}\t".encode())
                    last = ""
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(terminal)
    return shown


@pytest.mark.skipif(shutil.which("zsh") is None, reason="needs zsh")
@pytest.mark.parametrize(
    ("typed", "wanted"),
    [("train.py model=ivqa_tr", "model=ivqa_transformer"), ("diagnose.py vqa=n2", "vqa=n2nmn")],
)
def test_zsh_completes(typed: str, wanted: str) -> None:
    lines = [
        f"cd {PROJECT}; autoload -Uz compinit; compinit -u -D",
        f'eval "$({sys.executable} train.py -sc install=zsh)"',
        "echo zsh is 'ready'",
    ]
    assert wanted in _typed_in_zsh(lines, f"{sys.executable} {typed}", wanted)


@pytest.mark.skipif(shutil.which("zsh") is None, reason="needs zsh")
def test_zsh_completes_nothing_behind_another_script(tmp_path: Path) -> None:
    (tmp_path / "other.py").write_text("print('run')")
    script = f"""
    compdef() {{ rule=$1 }}; _default() {{ echo default }}; compadd() {{ echo added }}
    eval "$({sys.executable} train.py -sc install=zsh)"
    words=({sys.executable} {tmp_path}/other.py model=ivqa_tr); CURRENT=3; PREFIX=model=ivqa_tr
    $rule; words[2]=train.py; $rule
    """
    found = subprocess.run(
        ["zsh", "-f", "-c", script], capture_output=True, text=True, cwd=PROJECT, check=True
    )
    assert found.stdout.split() == ["default", "added"]
