"""data=scenes: the scenes as a VQA data set that is generated on first use."""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path

from typing_extensions import override

from ivqa.data import VQADataset, VQASplit
from ivqa.ranges import Count, ImagesOfSplit, Seed
from ivqa.scenes.candidates import candidate_answers
from ivqa.scenes.generation import DEFAULT_IMAGES, SceneSettings, generate_scenes
from ivqa.store.digests import digest


@dataclass(eq=False)
class ScenesDataset(VQADataset):
    """The scenes as a data set. They are generated in a cache folder on first use.

    Args:
        cache_dir: Folder of all generated roots; each combination of settings has its own root.
        seed: Seed of the scenes, the questions and the answers.
        images: Number of images of each split; None for `generation.DEFAULT_IMAGES`.
        questions_per_image: Number of questions about each image.
        balanced: Whether the images come in pairs that answer the same questions differently, as
            in VQA 2.0.
        multiple_choice: Whether each question has 18 candidate answers, see `candidate_answers`.
            They are drawn when a split is read, so they change no file and no trained model.
        workers: Number of processes that generate. They do not change the result.
        train: Split for training; None for no training split.
        val: Split for validation, or None.
        test: Split for testing, or None.

    Raises:
        UserError: One of the splits that serve as train, val and test has another stage's name.
    """

    cache_dir: str | Path
    _: KW_ONLY
    seed: Seed = 0
    images: Mapping[str, ImagesOfSplit] | None = None
    questions_per_image: Count = 3
    balanced: bool = False
    multiple_choice: bool = False
    workers: Count = 2
    train: str | None = "train"
    val: str | None = "val"
    test: str | None = "test"

    def __post_init__(self) -> None:
        self._num_images = dict(self.images or DEFAULT_IMAGES)
        sizes = "x".join(str(number) for number in self._num_images.values())
        kind = "scenes_balanced" if self.balanced else "scenes"
        super().__init__(
            Path(self.cache_dir) / f"{kind}_{sizes}x{self.questions_per_image}_seed{self.seed}",
            train=self.train,
            val=self.val,
            test=self.test,
            require_images=True,
        )
        self._generated = False

    @property
    @override
    def title(self) -> str:
        return "balanced scenes" if self.balanced else "scenes"

    @override
    def cache_key(self) -> str:
        """A hash (16 hex digits) of the settings and the version of the generator.

        They determine the data. The files are left out: the number of bytes of a PNG file depends
        on the version of the compressor.
        """
        # The number of processes and the folder are left out, too.
        settings = SceneSettings(
            self._num_images, self.questions_per_image, self.seed, self.balanced
        )
        return digest([settings.digest(), self.names])

    @override
    def _read(self, name: str) -> VQASplit:
        split = super()._read(name)
        if not self.multiple_choice:
            return split
        ids = split.question_ids.tolist()
        drawn = candidate_answers(ids, split.main_answers, split.question_types, self.seed)
        return replace(split, multiple_choices=drawn)

    @override
    def prepare(self) -> None:
        """Generates the data unless the root is complete."""
        if self._generated:
            return
        generate_scenes(
            self.root,
            images=self._num_images,
            questions_per_image=self.questions_per_image,
            seed=self.seed,
            balanced=self.balanced,
            workers=self.workers,
        )
        self._generated = True
