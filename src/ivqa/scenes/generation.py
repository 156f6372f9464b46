"""Generates a data set of scenes in VQA's official layout of files."""

import json
import os
import random
import shutil
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from multiprocessing import get_all_start_methods, get_start_method, parent_process
from multiprocessing.context import SpawnContext, SpawnProcess
from pathlib import Path
from types import ModuleType
from typing import Any

from rich.progress import Progress

from ivqa.errors import UserError
from ivqa.ranges import ImagesOfSplit
from ivqa.scenes.annotators import annotate
from ivqa.scenes.captions import describe
from ivqa.scenes.grammar import realise
from ivqa.scenes.programs import Program, evaluate, layout
from ivqa.scenes.questions import question_type, sample_contrast, sample_program
from ivqa.scenes.renderer import render
from ivqa.scenes.world import Scene, change_scene, sample_scene
from ivqa.store.digests import digest
from ivqa.store.files import FileError, read_json, write_json
from ivqa.store.integrity import MANIFEST, first_fault, write_manifest
from ivqa.store.locks import folder_lock
from ivqa.terminal import terminal

# Raise it whenever the same settings give other data, so that older caches are not used.
VERSION = 2
DEFAULT_IMAGES = {"train": 4000, "val": 500, "test": 500}
"""Number of images of each split."""

_CHUNK = 50  # images that a process draws for each task it is given
_IDS_PER_SPLIT = 1_000_000


@dataclass(frozen=True)
class SceneSettings:
    """Everything that determines the generated data; see `generate_scenes`."""

    images: dict[str, int]
    questions_per_image: int
    seed: int
    balanced: bool
    version: int = VERSION

    def digest(self) -> str:
        """The digest of the settings and of `VERSION`."""
        return digest(asdict(self))


def generate_scenes(
    root: Path,
    *,
    images: Mapping[str, ImagesOfSplit] | None = None,
    questions_per_image: int = 3,
    seed: int = 0,
    balanced: bool = False,
    workers: int = 2,
    progress: bool = True,
) -> Path:
    """Writes a data root of scenes, unless it is complete already.

    A root that has other settings, or a missing or changed file, is replaced. An interrupted call
    leaves a hidden draft folder, which the next call deletes. Only one process at a time generates
    scenes in the folder of `root`; others wait.

    Args:
        root: The folder to write.
        images: Number of images of each split; None for `DEFAULT_IMAGES`.
        questions_per_image: Number of questions about each image.
        seed: Seed of the data.
        balanced: Whether images come in pairs that differ a little, and each question is asked
            about both images of a pair, with different answers (Goyal et al., VQA 2.0, CVPR 2017).
        workers: Number of processes. They do not change the result.
        progress: Whether to show a progress bar.

    Returns:
        `root`.

    Raises:
        UserError: A size is below 1 or too large, or the number of balanced images is odd.
    """
    settings = SceneSettings(dict(images or DEFAULT_IMAGES), questions_per_image, seed, balanced)
    _check(settings, workers)
    if _is_complete(root, settings):
        return root
    with folder_lock(root.parent):
        if not _is_complete(root, settings):  # another process may have generated them meanwhile
            _generate(root, settings, workers, progress=progress)
    return root


def _generate(root: Path, settings: SceneSettings, workers: int, *, progress: bool) -> None:
    draft = root.with_name(f".{root.name}.draft")
    shutil.rmtree(draft, ignore_errors=True)  # an interrupted run leaves it
    with Progress(transient=True, disable=not progress) as bar:
        task = bar.add_task("drawing scenes", total=sum(settings.images.values()))
        with _mapping(workers) as mapped:
            for order, (split, number) in enumerate(settings.images.items()):
                folder = draft / "images" / split
                folder.mkdir(parents=True)
                draw = partial(_generate_chunk, settings, split, order * _IDS_PER_SPLIT, folder)
                parts = []
                for part in mapped(draw, range(0, number, _CHUNK)):
                    parts.append(part)
                    bar.advance(task, len(part["scenes"]))
                _write_split(draft, split, parts)
    write_json(draft / "manifest.json", {"settings": settings.digest(), **asdict(settings)})
    write_manifest(draft / MANIFEST, [file for file in draft.rglob("*") if file.is_file()])
    # The draft replaces the root only when it is complete.
    shutil.rmtree(root, ignore_errors=True)
    draft.rename(root)


@contextmanager
def _mapping(workers: int) -> Iterator[Callable[..., Iterable[Any]]]:
    """Yields `map` over processes, or over this one where it cannot start any."""
    # A worker of joblib, such as a job of hydra/launcher=joblib, has a start method of joblib's,
    # which processes that it starts do not know.
    if get_start_method(allow_none=True) not in (None, *get_all_start_methods()):
        yield map
        return
    with ProcessPoolExecutor(
        workers, mp_context=_WorkerContext(), initializer=_end_with_the_parent
    ) as pool:
        yield pool.map


class _Worker(SpawnProcess):
    """A process that does not run the user's script again, as spawned processes otherwise do.

    A script without `if __name__ == "__main__"` would then start processes in each process. A fork
    would not run it either, but can hang in a process that runs torch's threads.
    """

    @staticmethod
    def _Popen(process_obj: Any) -> Any:  # the name in multiprocessing
        script = sys.modules["__main__"]
        sys.modules["__main__"] = ModuleType("__main__")
        try:
            return SpawnProcess._Popen(process_obj)
        finally:
            sys.modules["__main__"] = script


class _WorkerContext(SpawnContext):
    Process = _Worker


def _end_with_the_parent() -> None:
    """Ends this worker when its parent is killed; otherwise it would wait for work forever."""

    def wait() -> None:
        if (parent := parent_process()) is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def _is_complete(root: Path, settings: SceneSettings) -> bool:
    """Whether `root` holds the scenes of these settings as they were written."""
    try:
        if read_json(root / "manifest.json", dict).get("settings") != settings.digest():
            return False
    except FileError:
        return False
    if fault := first_fault(root / MANIFEST):
        terminal().print(f"{fault}: the scenes are generated again", soft_wrap=True)
    return fault is None


def _check(settings: SceneSettings, workers: int) -> None:
    for split, number in settings.images.items():
        if number < 1 or number >= _IDS_PER_SPLIT:
            raise UserError(
                f"images.{split} must be between 1 and {_IDS_PER_SPLIT - 1}, not {number}"
            )
        if settings.balanced and number % 2:
            raise UserError(
                f"images.{split}={number}: balanced scenes come in pairs; give an even number"
            )
    if settings.questions_per_image < 1 or workers < 1:
        raise UserError("questions_per_image and workers must be at least 1")


def _generate_chunk(
    settings: SceneSettings, split: str, first_id: int, folder: Path, start: int
) -> dict[str, Any]:
    """Draws up to _CHUNK images; returns their part of the JSON files, by the kind of file."""
    part: dict[str, Any] = {
        "scenes": {},
        "questions": [],
        "annotations": [],
        "captions": [],
        "layouts": {},
        "programs": {},
    }
    for index in range(start, min(start + _CHUNK, settings.images[split])):
        image_id = first_id + index + 1
        scene, programs = _scene_and_programs(settings, split, index)
        # An image has its own generators: its words, answers and picture do not depend on
        # which process draws it, or in which chunk.
        rng = random.Random(f"{settings.seed}/{split}/{index}/{settings.balanced}/text")
        part["scenes"][image_id] = scene.to_json()
        part["captions"] += [(image_id, text) for text in describe(scene, rng)]
        for number, program in enumerate(programs):
            # Question ids of different images differ for up to 100 questions an image.
            _add_question(part, rng, scene, program, image_id, image_id * 100 + number, settings)
        picture = render(scene, random.Random(f"{settings.seed}/{split}/{index}/picture"))
        picture.save(folder / f"scenes_{split}_{image_id:012d}.png", compress_level=1)
    return part


def _scene_and_programs(
    settings: SceneSettings, split: str, index: int
) -> tuple[Scene, list[Program]]:
    wanted = settings.questions_per_image
    if not settings.balanced:
        rng = random.Random(f"{settings.seed}/{split}/{index}")
        scene = sample_scene(rng)
        return scene, _distinct(partial(sample_program, rng, scene), wanted)
    # Both images of a pair draw the pair with the same generator, and each takes its own scene.
    rng = random.Random(f"{settings.seed}/{split}/pair {index // 2}")
    while True:
        pair = (scene := sample_scene(rng)), change_scene(rng, scene)
        programs = _distinct(partial(sample_contrast, rng, *pair), wanted)
        if len(programs) == wanted:
            return pair[index % 2], programs


def _distinct(sample: Callable[[], Program | None], wanted: int) -> list[Program]:
    """Up to `wanted` distinct programs among ten times as many draws."""
    programs: dict[Program, None] = {}
    for _ in range(10 * wanted):
        if len(programs) == wanted:
            break
        if (program := sample()) is not None:
            programs[program] = None
    return list(programs)


def _add_question(
    part: dict[str, Any],
    rng: random.Random,
    scene: Scene,
    program: Program,
    image_id: int,
    question_id: int,
    settings: SceneSettings,
) -> None:
    # The wording depends on the program only, so that both images of a pair get the same question.
    words = rng if not settings.balanced else random.Random(repr(program))
    question = realise(program, words)
    answer = str(evaluate(program, scene).answer)
    kind = program.answer_type
    part["questions"].append(
        {"image_id": image_id, "question_id": question_id, "question": question}
    )
    part["annotations"].append(
        {
            "question_id": question_id,
            "image_id": image_id,
            "question_type": question_type(question, kind),
            "answer_type": kind,
            "multiple_choice_answer": answer,
            "answers": annotate(rng, answer, kind),
        }
    )
    part["layouts"][question_id] = layout(program)
    part["programs"][question_id] = asdict(program)


def _write_split(root: Path, split: str, parts: list[dict[str, Any]]) -> None:
    def gathered(key: str) -> Any:
        if isinstance(parts[0][key], dict):
            return {name: value for part in parts for name, value in part[key].items()}
        return [item for part in parts for item in part[key]]

    info = {"description": "ivqa scenes", "version": str(VERSION)}
    captions = [
        {"image_id": image_id, "id": number, "caption": text}
        for number, (image_id, text) in enumerate(gathered("captions"))
    ]
    scenes = gathered("scenes")
    names = [{"id": key, "file_name": f"scenes_{split}_{key:012d}.png"} for key in scenes]
    files = {
        "questions": {
            "info": info,
            "task_type": "Open-Ended",
            "data_type": "scenes",
            "data_subtype": split,
            "questions": gathered("questions"),
        },
        "annotations": {
            "info": info,
            "data_type": "scenes",
            "data_subtype": split,
            "annotations": gathered("annotations"),
        },
        "captions": {"info": info, "images": names, "annotations": captions},
        "layouts": gathered("layouts"),
        "scenes": scenes,
        "programs": gathered("programs"),
    }
    for name, content in files.items():
        (root / f"{name}_{split}.json").write_text(json.dumps(content, separators=(",", ":")))
