"""hydra/sweeper=optuna: the points of a sweep file of W&B, drawn by Optuna.

Hydra looks for sweepers in the namespace package hydra_plugins and imports this module with every
command, so it imports nothing of size. The released hydra-optuna-sweeper (1.3.0) needs Optuna
below 3, and does not continue a sweep that was interrupted.
"""

from pathlib import Path
from typing import Any

from hydra.core.plugins import Plugins
from hydra.plugins.launcher import Launcher
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf

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
        self.config: DictConfig | None = None
        self.launcher: Launcher | None = None

    def setup(
        self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig
    ) -> None:
        """Keeps what a sweep needs; part of Hydra's interface.

        Args:
            hydra_context: Composes the configurations of the points.
            task_function: Runs one point.
            config: The configuration of the sweep.
        """
        self.config, self.hydra_context = config, hydra_context
        self.launcher = Plugins.instance().instantiate_launcher(
            hydra_context=hydra_context, task_function=task_function, config=config
        )

    def sweep(self, arguments: list[str]) -> Any:
        """Runs the sweep in hydra.sweep.dir.

        Args:
            arguments: The overrides of the user, and those of the file's `command:`.

        Raises:
            UserError: The sweep cannot run, or none of its points has a result.
        """
        # Of size: PyTorch and Optuna.
        from ivqa.config.values import value_fault
        from ivqa.ranges import Count, Seed
        from ivqa.sweeps.optuna_sweep import SweepJob
        from ivqa.sweeps.sweep_files import read_sweep, with_overrides
        from ivqa.sweeps.sweeps import sweep_in

        settings = [
            ("trials", self.trials, Count | None),
            ("hydra.sweeper.seed", self.seed, Seed),
            ("hydra.sweeper.jobs", self.jobs, Count),
        ]
        if faults := [fault for one in settings if (fault := value_fault(*one))]:
            raise UserError("; ".join(faults))
        assert self.config is not None
        assert self.launcher is not None
        config, loader = self.config, self.hydra_context.config_loader
        folder = Path(str(config.hydra.sweep.dir))
        folder.mkdir(parents=True, exist_ok=True)
        OmegaConf.save(config, folder / "multirun.yaml")
        sweep, fixed = with_overrides(read_sweep(self.file), arguments)
        sweep_in(
            folder,
            SweepJob(sweep, fixed, self.trials, self.seed, self.jobs),
            compose=lambda overrides: loader.load_sweep_config(config, list(overrides)),
            launch=self.launcher.launch,
            console=terminal(),
        )
