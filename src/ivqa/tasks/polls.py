"""Yes/no polls about objects, for hallucination figures beside the beliefs of a model."""

from collections.abc import Mapping, Set
from pathlib import Path
from typing import Annotated

from hydra.utils import instantiate
from omegaconf import DictConfig

from ivqa.config.keys import CommandKeys
from ivqa.data import VQADataset
from ivqa.errors import UserError
from ivqa.interchange.polls import STRATEGIES, ListsObjects, draw_polls, read_instances, write_polls
from ivqa.ranges import Count, ExistingFile
from ivqa.runs.run_directory import write_config
from ivqa.scenes import oracle_of
from ivqa.terminal import terminal


class Keys(CommandKeys, total=False):
    """Keys of task=polls."""

    instances: ExistingFile | None
    num_images: Count | None
    num_objects: Count


def polls(cfg: Annotated[DictConfig, Keys]) -> float:
    """Writes polls about the images of cfg.split (task=polls).

    Writes the data root polls/ with the splits random, popular and adversarial, and POPE's own
    files, into the run directory.

    Returns:
        The number of polls of each strategy.

    Raises:
        UserError: The objects in the images are not known, or no image has enough of them.
    """
    run_dir, console = Path(cfg.output_dir), terminal()
    dataset = instantiate(cfg.data)
    split = dataset.split(cfg.split)
    known = _objects(cfg, dataset)
    ids = set(split.require_images().ids.tolist())
    objects = {image: names for image, names in known.items() if image in ids and names}
    root, number = run_dir / "polls", 0
    for strategy in STRATEGIES:
        drawn = draw_polls(
            objects,
            strategy,
            num_images=cfg.num_images,
            num_objects=cfg.num_objects,
            seed=cfg.seed,
        )
        if not drawn:
            raise UserError(
                f"no image of '{split.name}' has {cfg.num_objects} objects, and as many others "
                "that are absent; lower num_objects"
            )
        write_polls(root, strategy, drawn, split)
        number = len(drawn)
    write_config(cfg, run_dir)
    console.print(f"{number} polls of each of {', '.join(STRATEGIES)}: {root}", soft_wrap=True)
    console.print(
        f"put them to a model: python evaluate.py -m model=mlb questions={root} "
        f"questions_split={','.join(STRATEGIES)}\n"
        f"score other answers: python evaluate.py predictions=FILE data=vqa_json data.root={root} "
        "data.test=popular",
        soft_wrap=True,
        highlight=False,
    )
    return float(number)


def _objects(cfg: DictConfig, dataset: VQADataset) -> Mapping[int, Set[str]]:
    """The objects in the images of cfg.split."""
    if cfg.instances is not None:
        return read_instances(Path(cfg.instances))
    oracle = oracle_of(dataset, cfg.split)
    if not isinstance(oracle, ListsObjects):
        raise UserError(
            f"which objects are in the images of {dataset.title} is not known; pass COCO's file as "
            "instances=instances_val2014.json, or use data=scenes, clevr or gqa"
        )
    return oracle.objects()
