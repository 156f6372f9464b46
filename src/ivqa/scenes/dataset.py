"""The embedded data set as a data root that is generated on first use."""

from collections.abc import Mapping
from pathlib import Path

from ivqa.data import VQADataset
from ivqa.files import digest
from ivqa.ranges import Count, ImagesOfSplit, Seed
from ivqa.scenes.generation import generate_scenes, settings_digest


class ScenesDataset(VQADataset):
    """The generated data set of `ivqa.scenes`, made in a cache folder on first use.

    cache_dir: where roots of generated data live, one a setting. seed, images (a split name to
    its number), questions_per_image, balanced: what to generate. workers: processes.
    """

    def __init__(
        self,
        cache_dir: str | Path,
        *,
        seed: Seed = 0,
        images: Mapping[str, ImagesOfSplit] | None = None,
        questions_per_image: Count = 3,
        balanced: bool = False,
        workers: Count = 2,
        train: str | None = "train",
        val: str | None = "val",
        test: str | None = "test",
    ) -> None:
        self.images = dict(images or {"train": 4000, "val": 500, "test": 500})
        self.seed, self.questions_per_image = seed, questions_per_image
        self.balanced, self.workers = balanced, workers
        sizes = "x".join(str(number) for number in self.images.values())
        kind = "scenes_balanced" if balanced else "scenes"
        super().__init__(
            Path(cache_dir) / f"{kind}_{sizes}x{questions_per_image}_seed{seed}",
            train=train,
            val=val,
            test=test,
            require_images=True,
        )
        self._generated = False

    def fingerprint(self) -> str:
        """A hash (16 hex digits) of the settings and the version of the generator.

        They determine the data. The files do not enter: how many bytes a PNG takes depends on the
        version of its compressor.
        """
        made = settings_digest(
            self.images, self.questions_per_image, seed=self.seed, balanced=self.balanced
        )
        return digest([made, self.names])

    def prepare(self) -> None:
        """Generates the data unless a complete root is there."""
        if self._generated:
            return
        generate_scenes(
            self.root,
            images=self.images,
            questions_per_image=self.questions_per_image,
            seed=self.seed,
            balanced=self.balanced,
            workers=self.workers,
        )
        self._generated = True
