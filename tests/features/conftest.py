"""A small photo-like data root with captions."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from ivqa.data import VQADataset

COLORS = {"red": (220, 30, 30), "blue": (30, 30, 220), "green": (30, 200, 30)}


@pytest.fixture
def dataset(tmp_path: Path) -> VQADataset:
    """60 + 12 images of one colour each, of two sizes; captions name the colour."""
    rng = np.random.default_rng(0)
    for split, number in (("train", 60), ("val", 12)):
        folder = tmp_path / "images" / split
        folder.mkdir(parents=True)
        questions, annotations, captions = [], [], []
        for image_id in range(1, number + 1):
            name = list(COLORS)[image_id % 3]
            pixels = np.clip(np.array(COLORS[name]) + rng.normal(0, 20, (40, 50, 3)), 0, 255)
            Image.fromarray(pixels.astype(np.uint8)).save(folder / f"x_{image_id:012d}.png")
            questions.append({"image_id": image_id, "question_id": image_id, "question": "What?"})
            answers = [{"answer": name, "answer_confidence": "yes", "answer_id": 1}]
            annotations.append({"question_id": image_id, "image_id": image_id, "answers": answers})
            captions.append({"image_id": image_id, "id": image_id, "caption": f"a {name} wall"})
        for kind, records in (("questions", questions), ("annotations", annotations)):
            (tmp_path / f"{kind}_{split}.json").write_text(json.dumps({kind: records}))
        (tmp_path / f"captions_{split}.json").write_text(
            json.dumps({"images": [], "annotations": captions})
        )
    return VQADataset(tmp_path)
