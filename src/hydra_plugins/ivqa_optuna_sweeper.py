"""hydra/sweeper=optuna: the points of a sweep file of W&B, drawn by Optuna.

Hydra looks for sweepers in the namespace package hydra_plugins and imports this module with every
command, so it imports nothing of size. The released hydra-optuna-sweeper (1.3.0) needs Optuna
below 3, and does not continue a sweep that was interrupted.
"""

from pathlib import Path
from typing import Any

from hydra.core.plugins import Plugins
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf
from typing_extensions import override

from ivqa.errors import UserError
from ivqa.terminal import terminal


class OptunaSweeper(Sweeper):
    """Runs the points of a sweep file; see `ivqa.sweeps.optuna_sweep`.

    Args:
        file: The sweep file.
        trials: Number of points; None for run_cap of the file, or the whole grid.
        seed: Seed of the points that are drawn.
        jobs: Number of points that the launcher gets at a time.
    """

    def __init__(self, file: str, trials: int | None, seed: int, jobs: int) -> None:
        self.file = Path(file)
        self.trials, self.seed, self.jobs = trials, seed, jobs

    @override
    def setup(
        self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig
    ) -> None:
        self._config, self._loader = config, hydra_context.config_loader
        self._launcher = Plugins.instance().instantiate_launcher(
            hydra_context=hydra_context, task_function=task_function, config=config
        )

    @override
    def sweep(self, arguments: list[str]) -> Any:
        # Of size: PyTorch and Optuna.
        from ivqa.config.values import value_fault
        from ivqa.ranges import Count, Seed
        from ivqa.sweeps.optuna_sweep import OptunaSweep
        from ivqa.sweeps.sweep_files import read_sweep

        settings = [
            ("trials", self.trials, Count | None),
            ("hydra.sweeper.seed", self.seed, Seed),
            ("hydra.sweeper.jobs", self.jobs, Count),
        ]
        if faults := [fault for one in settings if (fault := value_fault(*one))]:
            raise UserError("; ".join(faults))
        folder = Path(str(self._config.hydra.sweep.dir))
        folder.mkdir(parents=True, exist_ok=True)
        OmegaConf.save(self._config, folder / "multirun.yaml")
        sweep, fixed = read_sweep(self.file, arguments)
        OptunaSweep(
            sweep=sweep,
            fixed=fixed,
            folder=folder,
            compose=lambda given: self._loader.load_sweep_config(self._config, list(given)),
            launch=self._launcher.launch,
            console=terminal(),
            points=self.trials,
            seed=self.seed,
            at_once=self.jobs,
        ).run()
