"""The long jobs of ivqa, each small enough for seconds."""

from dataclasses import dataclass
from pathlib import Path

from attempts import Command

DATA = ("data=vqa_json", "data.root=data")
FEATURES = ("features.image_size=32", "features.width=16", "features.epochs=3")
# A checkpoint within epochs too, so that a run continues in the middle of one.
STEPS = ("callbacks.last.every_n_train_steps=3",)
PARTS = (
    "model.parts.questioner.epochs=3",
    "model.parts.questioner.module.network.embedding_size=16",
    "model.parts.questioner.module.network.hidden_size=16",
)
POLICY = (
    *PARTS,
    "model.parts.legality_model.epochs=2",
    "model.epochs=3",
    "model.epoch_steps=3",
    "model.val_batches=1",
    "vqa=vanilla",
    "vqa.epochs=2",
    "pretrained=false",
)
SEARCH = ("num_images=null", "num_latents=8", "legality=0", "num_noisy_questions=20", "split=train")


@dataclass(frozen=True)
class Job:
    """A command that is interrupted.

    Attributes:
        command: The command.
        prepared: Commands whose artifacts the job finds in the store.
        resumes: Whether `resume=run` continues it; otherwise the same command runs again.
    """

    command: Command
    prepared: tuple[Command, ...] = ()
    resumes: bool = True


def jobs(endpoint: str) -> dict[str, Job]:
    """The jobs by name.

    Args:
        endpoint: Address of a stand-in for a served model.
    """
    features = ("train", "model=vanilla", *DATA, *FEATURES, "model.epochs=1", "output_dir=first")
    policy = ("train", "model=ivqa_rl", *DATA, *FEATURES, *POLICY)
    ready = (features,)
    parts = (features, (*policy, "output_dir=first"))

    def train(model: str, *overrides: str) -> Job:
        command = ("train", f"model={model}", *DATA, *FEATURES, *overrides, "output_dir=run")
        return Job(command, ready)

    return {
        "scenes": Job(
            (
                *("train", "model=prior", "data.images={train:60,val:10,test:10}"),
                *("+data.workers=1", "features=none", "output_dir=run"),
            ),
            resumes=False,
        ),
        "features": Job(
            ("train", "model=vanilla", *DATA, *FEATURES, "model.epochs=1", "output_dir=run"),
            resumes=False,
        ),
        "pixels": Job(
            (
                *("train", "model=vanilla", *DATA, "features=trainable"),
                *("features.image_size=32", "features.network.width=16", "model.epochs=3"),
                "output_dir=run",
            )
        ),
        "vqa": train("mlb", "model.epochs=4", "model.batch_size=32", *STEPS),
        "generator": train("ivqa_vae", "model.epochs=4", "model.batch_size=32", *STEPS),
        "legality": train("legality", *PARTS, "model.epochs=3", "pretrained=false"),
        "skip_thoughts": train("skip_thoughts", "model.epochs=4", "model.batch_size=16", *STEPS),
        "policy": Job((*policy, "output_dir=run"), ready),
        "beliefs": Job(
            (
                *("diagnose", *DATA, *FEATURES, *POLICY, *SEARCH, "output_dir=run"),
                "callbacks.robustness.resamples=100",
            ),
            parts,
        ),
        "ranking": Job(
            (
                *("evaluate", "task=rank", *DATA, "bqd.splits=[train,val]", "split=train"),
                *("part_size=8", "k=5", "keep_answers=true", "output_dir=run"),
            )
        ),
        "noise": Job(
            (
                *("evaluate", "model=vanilla", *DATA, *FEATURES, "model.epochs=1", "split=val"),
                *("callbacks=robustness", "callbacks.robustness.resamples=100", "output_dir=run"),
            ),
            ready,
            resumes=False,
        ),
        "sweep": Job(
            (
                *("train", "-m", "model=language_only", "seed=1,2", *DATA),
                *("features=none", "model.epochs=2", "output_dir=run"),
                "+hydra.callbacks.table.columns={accuracy: val/vqa_accuracy}",
            ),
            resumes=False,
        ),
        "endpoint": Job(
            (
                *("evaluate", "model=openai", "model.path=tiny", f"model.base_url={endpoint}"),
                *(*DATA, "split=val", "model.workers=4", "output_dir=run"),
            ),
            resumes=False,
        ),
    }


def again(job: Job, folder: Path) -> Command:
    """The command that a user runs after an interruption."""
    run = folder / "run"
    started = (run / "config.yaml").is_file() and (run / "overrides.yaml").is_file()
    progress = (run / "checkpoints" / "last.ckpt", run / "progress.json", run / "parts")
    if job.resumes and started and any(path.exists() for path in progress):
        return (job.command[0], "resume=run")
    return job.command
