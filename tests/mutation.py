"""Runs the mutation tool mutmut over the modules that compute scores, rewards and beliefs.

A mutant is the module with one small fault: another operator, number, argument or condition. It is
killed if a quick test of the module's folder or a doctest fails.

    python tests/mutation.py                            all of MODULES
    python tests/mutation.py --only 'metrics.*'         some of them
    python tests/mutation.py --sample 0                 every mutant, not a random sample
    python tests/mutation.py --survivors                the survivors of the last run again

Everything is written below outputs/mutation/.
"""

import argparse
import json
import os
import random
import re
import shutil
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path

import libcst
from mutmut.configuration import reset_config
from mutmut.mutation.diff_apply import get_diff_for_mutant
from mutmut.mutation.file_mutation import mutate_file_contents
from mutmut.stats import status_by_exit_code
from mutmut.utils.format_utils import get_mutant_name

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "outputs" / "mutation"

# Module below ivqa -> its tests below tests/; empty: the folder of the module's package.
MODULES: dict[str, tuple[str, ...]] = {
    "metrics.vqa_accuracy": (),
    "metrics.r_score": (),
    "metrics.captions.captions": (),
    "metrics.captions.bleu": (),
    "metrics.captions.cider": (),
    "metrics.captions.meteor": (),
    "metrics.captions.ngrams": (),
    "metrics.captions.rouge_l": (),
    "metrics.diversity": (),
    "metrics.captions.best_match": (),
    "metrics.bootstrap": (),
    "metrics.mcnemar": (),
    "metrics.oracle_consistency": (),
    "metrics.agreement": ("metrics/test_agreement.py",),
    "metrics.expected_cider": ("metrics/test_expected_cider.py",),
    "encoders.whitened": ("encoders/test_whitened.py",),
    "ranking.pools": ("ranking/test_bqd_answers.py", "ranking/test_bqd.py"),
    "ranking.bqd_files": ("ranking/test_bqd_files.py", "ranking/test_bqd.py"),
    "ranking.bqd_ranking": ("ranking/test_bqd.py", "ranking/test_bqd_merging.py"),
    "ranking.deduplication": ("ranking/test_deduplication.py",),
    "ranking.question_rankers": (
        "ranking/test_question_rankers.py",
        "ranking/test_deduplication.py",
        "ranking/test_bqd.py",
    ),
    "ranking.score_ranking": ("ranking/test_score_ranking.py",),
    "text.answers": ("text/test_answers.py", "metrics/test_vqa_accuracy.py"),
    "text.normalisation": ("text/test_answers.py", "text/test_normalisation.py"),
    "robustness.basic_questions": (),
    "robustness.word_shuffling": (),
    "robustness.curve": (),
    "robustness.comparison": ("robustness/test_comparison.py", "robustness/test_flips.py"),
    "robustness.image_noise": ("robustness/test_image_noise.py",),
    "robustness.callback": (),
    "vqa.multiple_choice": ("vqa/test_vqa_benchmark.py",),
    "scenes.candidates": ("scenes/test_candidates.py",),
    "robustness.bqd_noise": ("robustness/test_bqd_noise.py",),
    "robustness.noise": ("robustness/test_image_noise.py",),
    "robustness.records": (
        "robustness/test_records.py",
        "robustness/test_comparison.py",
        "robustness/test_callback.py",
    ),
    "robustness.vqabq": ("robustness/test_vqabq.py", "robustness/test_bqd_noise.py"),
    "robustness.rephrasing": ("robustness/test_rephrasing.py",),
    "tasks.human_study.task": ("tasks/test_human_study.py",),
    "tasks.repair": ("tasks/test_repair_run.py", "tasks/test_repair_table.py"),
    "tasks.repair_run": ("tasks/test_repair_run.py", "tasks/test_repair_rounds.py"),
    "tools.results": ("tasks/test_results.py",),
    "tasks.human_study.items": ("tasks/test_study_items.py",),
    "tasks.human_study.ratings": ("tasks/test_study_ratings.py",),
    "tools.results_page": ("report/test_results_page.py", "tasks/test_results.py"),
    "sweeps.multirun": ("runs/test_multirun.py",),
    "sweeps.optuna_sweep": ("runs/test_optuna_sweep.py",),
    "sweeps.sweep_files": ("runs/test_sweep_files.py",),
    "diagnosis.policy.rewards": ("diagnosis/test_meaning_reward.py",),
    "diagnosis.beliefs.beliefs": (),
    "diagnosis.beliefs.contradictions": (),
    "diagnosis.policy.module": (),
    "diagnosis.policy.adversary": ("diagnosis/test_adversary.py",),
    "diagnosis.beliefs.corrections": ("diagnosis/test_corrections.py",),
    "diagnosis.beliefs.reasons": ("diagnosis/test_reasons.py",),
    "diagnosis.beliefs.mistakes": ("diagnosis/test_mistakes.py",),
    "answer_aware.reranking": (
        "answer_aware/test_reranking.py",
        "answer_aware/test_minimum_risk.py",
    ),
    "answer_aware.minimum_risk": ("answer_aware/test_minimum_risk.py",),
    "answer_aware.dual_module": ("answer_aware/test_dual_module.py",),
    "diagnosis.legality.module": (),
    "generators.objective": (),
    "generators.elbo_terms": (),
    "generators.likelihood": (),
    "generators.decoding.beam": (),
    "generators.decoding.strategies": (),
    "generators.decoding.stochastic_beam": ("generators/test_stochastic_beam.py",),
    "generators.decoding.inference": ("generators/test_single_question.py",),
    "generators.pool_ranking": (
        "generators/test_pool_ranking.py",
        "generators/test_pool_ranking_run.py",
    ),
    "generators.nearest_neighbour": ("generators/test_nearest_neighbour.py",),
    "generators.networks.attention": ("generators/test_attention.py",),
    "features.pretrained.pretrained_concepts": ("features/test_pretrained_concepts.py",),
    "vqa.networks.vanilla": (),
    "vqa.networks.lstm_qi": (),
    "vqa.networks.mcb": (),
    "vqa.networks.mlb": (),
    "vqa.networks.mutan": (),
    "vqa.networks.hiecoatt": (),
    "vqa.networks.n2nmn": (),
    "vqa.networks.kernels": (),
    "vqa.networks.neural_modules": (),
    "lasso.batched_solver": ("lasso/test_batched_solver.py",),
    "lasso.certificate": (),
    "lasso.solver": (),
    "lasso.screening": (),
    "lasso.working_set": (),
}


def main() -> int:
    """Prints a table of the modules; returns the number of modules below 90 percent."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="*", help="pattern of modules below ivqa")
    parser.add_argument(
        "--sample", type=int, default=60, help="largest number of mutants per module; 0: all"
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of the sample")
    parser.add_argument(
        "--survivors", action="store_true", help="run the survivors of the last run"
    )
    parser.add_argument(
        "--processes", type=int, default=os.cpu_count(), help="number of parallel mutants"
    )
    arguments = parser.parse_args()
    modules = [module for module in MODULES if fnmatch(module, arguments.only)]
    if not modules:
        parser.error(f"no module of tests/mutation.py matches {arguments.only}")
    found = [_run(module, arguments) for module in modules]
    print("\n| module | mutants | run | killed | share |\n|---|---|---|---|---|")
    for module, total, run, killed in found:
        print(f"| {module} | {total} | {run} | {killed} | {killed / max(run, 1):.0%} |")
    return sum(killed < 0.9 * run for _, _, run, killed in found)


def _run(module: str, arguments: argparse.Namespace) -> tuple[str, int, int, int]:
    """Runs mutants of a module: its name, and the numbers of all, run and killed mutants."""
    below = () if module.startswith("tools.") else ("src", "ivqa")
    file = Path(*below, *module.split(".")).with_suffix(".py")
    _make_workspace(module, file)
    names = _names(file)
    result = RESULTS / f"{module}.json"
    known = json.loads(result.read_text()) if arguments.survivors and result.is_file() else {}
    if arguments.survivors:
        chosen = [n for n in names if known.get(n, "killed") not in ("killed", "timeout")]
    elif arguments.sample and len(names) > arguments.sample:
        chosen = sorted(random.Random(arguments.seed).sample(names, arguments.sample))
    else:
        chosen = names
    print(f"== {module}: {len(chosen)} of {len(names)} mutants", flush=True)
    if chosen:
        command = [shutil.which("mutmut", path=Path(sys.executable).parent) or "mutmut", "run"]
        command += ["--max-children", str(arguments.processes), *chosen]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"mutmut failed on {module}:\n{done.stdout[-4000:]}{done.stderr}")
        codes = json.loads(Path("mutants", f"{file}.meta").read_text())["exit_code_by_key"]
        known |= {name: status_by_exit_code[codes[name]] for name in chosen}
    for name in chosen:
        if known[name] not in ("killed", "timeout"):
            print(f"-- {known[name]}\n{get_diff_for_mutant(name, path=file)}")
    result.write_text(json.dumps(known, indent=1))
    killed = sum(status in ("killed", "timeout") for status in known.values())
    return module, len(names), len(known), killed


def _make_workspace(module: str, file: Path) -> None:
    """Enters a new folder with links to this checkout and mutmut's settings for a module."""
    tests = MODULES[module] or (module.partition(".")[0],)
    workspace = RESULTS / "workspaces" / module
    shutil.rmtree(workspace, ignore_errors=True)
    workspace.mkdir(parents=True)
    shutil.copytree(ROOT / "src", workspace / "src", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "tools", workspace / "tools")
    (workspace / file).write_text(
        libcst.parse_module((ROOT / file).read_text()).visit(_NoGradInside()).code
    )
    for name in ("tests", "conf", "train.py", "evaluate.py", "diagnose.py"):
        (workspace / name).symlink_to(ROOT / name)
    selection = [
        "-m",
        "not slow",
        "-k",
        "not __mutmut and not learning",
        str(file),
        *(f"tests/{t}" for t in tests),
    ]
    chosen = {"only_mutate": [str(file)], "pytest_add_cli_args_test_selection": selection}
    lines = "".join(f"{name} = {json.dumps(value)}\n" for name, value in chosen.items())
    settings = (ROOT / "pyproject.toml").read_text()
    settings = settings.replace("[tool.mutmut]\n", f"[tool.mutmut]\n{lines}")
    (workspace / "pyproject.toml").write_text(settings)
    os.chdir(workspace)
    reset_config()


class _NoGradInside(libcst.CSTTransformer):
    """Moves `@torch.no_grad()` into the function, because mutmut skips decorated functions."""

    def leave_FunctionDef(
        self, original_node: libcst.FunctionDef, updated_node: libcst.FunctionDef
    ) -> libcst.FunctionDef:
        call = libcst.parse_expression("torch.no_grad()")
        if [d.decorator.deep_equals(call) for d in updated_node.decorators] != [True]:
            return updated_node
        inside = libcst.With([libcst.WithItem(call)], updated_node.body)
        return updated_node.with_changes(decorators=[], body=libcst.IndentedBlock([inside]))


def _names(file: Path) -> list[str]:
    """The mutants of a file, except those that change only `strict` of `zip`."""
    mutated = mutate_file_contents(str(file), file.read_text())
    lines = mutated.code.splitlines()

    def code(name: str) -> str:
        span = mutated.line_span_by_function_name[name]
        text = "".join(lines[span.start - 1 : span.end]).replace(name, "")
        return re.sub(r",?strict=\w+", "", re.sub(r"\s", "", text)).replace(",)", ")")

    return [
        get_mutant_name(file, name)
        for name in mutated.mutant_names
        if code(name) != code(name.rpartition("_")[0] + "_orig")
    ]


if __name__ == "__main__":
    sys.exit(main())
