"""Writes small VQA data roots with image files."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

ANSWERS = ("yes", "no", "2", "red car", "3", "blue")


class RootWriter:
    """Writes the files of a VQA data root, one split in each call."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @staticmethod
    def question(question_id: Any, image_id: Any, text: Any = "What is this?") -> dict[str, Any]:
        return {"question_id": question_id, "image_id": image_id, "question": text}

    @staticmethod
    def annotation(question_id: Any, answers: list[Any], **more: Any) -> dict[str, Any]:
        given = [
            {"answer": answer, "answer_confidence": "yes", "answer_id": number}
            for number, answer in enumerate(answers, 1)
        ]
        return {"question_id": question_id, "answers": given, **more}

    def write(
        self,
        split: str,
        questions: list[dict[str, Any]],
        annotations: list[dict[str, Any]] | None,
        images: bool = False,
    ) -> Path:
        self.root.mkdir(parents=True, exist_ok=True)
        (self.root / f"questions_{split}.json").write_text(json.dumps({"questions": questions}))
        if annotations is not None:
            path = self.root / f"annotations_{split}.json"
            path.write_text(json.dumps({"annotations": annotations}))
        if images:
            for image_id in {record["image_id"] for record in questions}:
                name = f"COCO_{split}_{image_id:012d}.png"
                self.image(self.root / "images" / split / name, seed=image_id)
        return self.root

    @staticmethod
    def image(path: Path, seed: int = 0, size: int = 8) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        shape = (size, size, 3)
        pixels = np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)
        Image.fromarray(pixels).save(path)

    def example(
        self, num: int = 7, splits: tuple[str, ...] = ("train", "val"), images: bool = True
    ) -> Path:
        """Writes `num` questions about `num // 3 + 1` images in each split.

        The annotations are in reverse order, so that readers must join them by id.
        """
        for offset, split in enumerate(splits):
            ids = [1000 * (offset + 1) + number for number in range(num)]
            questions = [self.question(i, i // 3, f"How many dogs {i} are here?") for i in ids]
            annotations = [
                self.annotation(i, [ANSWERS[i % 6]] * 7 + [ANSWERS[(i + 1) % 6]] * 3)
                for i in reversed(ids)
            ]
            self.write(split, questions, annotations, images)
        return self.root


@pytest.fixture
def roots(tmp_path: Path) -> RootWriter:
    return RootWriter(tmp_path / "root")
