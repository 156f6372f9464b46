"""Questions as a Hugging Face data set: Parquet files and a card."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from ivqa.interchange.parquet import features, write_parquet
from ivqa.interchange.question_levels import QuestionLevels, write_answer_key
from ivqa.store.files import write_text


@dataclass(frozen=True, kw_only=True)
class HuggingFaceDataset:
    """Writes a folder that `datasets.load_dataset(folder)` loads; the card describes its columns.

    The split "level_0" has the questions without noise, "level_K" those of level K.

    Args:
        license: License of the data in the card, such as "cc-by-4.0"; None leaves it out.
    """

    license: str | None = None

    def write(self, levels: QuestionLevels, folder: Path, name: str) -> str:
        """Writes data/level_K.parquet, README.md and answer_key/ (VQA format)."""
        splits = []
        for level in range(levels.num_levels):
            size = write_parquet(folder / "data" / f"level_{level}.parquet", levels, level)
            splits.append(
                {"name": f"level_{level}", "num_bytes": size, "num_examples": len(levels)}
            )
        write_answer_key(levels, folder / "answer_key")
        write_text(folder / "README.md", _card(levels, name, splits, self.license))
        return f'load it: datasets.load_dataset("{folder}", split="level_0")'


def _card(
    levels: QuestionLevels, name: str, splits: list[dict[str, Any]], license_name: str | None
) -> str:
    """The card: metadata in YAML, then a description."""
    size = sum(split["num_bytes"] for split in splits)
    metadata = {
        **({"license": license_name} if license_name else {}),
        "task_categories": ["visual-question-answering"],
        "pretty_name": name,
        "dataset_info": {
            "features": _card_features(),
            "splits": splits,
            "download_size": size,
            "dataset_size": size,
        },
        "configs": [
            {
                "config_name": "default",
                "data_files": [
                    {"split": split["name"], "path": f"data/{split['name']}.parquet"}
                    for split in splits
                ],
            }
        ],
    }
    kinds = Counter(levels.split.kinds or ())
    beliefs = ", ".join(f"{count} {kind or 'unknown'}" for kind, count in sorted(kinds.items()))
    told = f"\nKinds of beliefs: {beliefs}.\n" if kinds else ""
    return (
        f"---\n{yaml.safe_dump(metadata, sort_keys=False)}---\n\n# {name}\n\n"
        f"{len(levels)} questions of the split '{levels.split.name}', exported by ivqa "
        "(`task=export export=datasets`). `level_0` has the questions without noise, `level_K` the "
        f"same questions at noise level K.\n{told}\n"
        "| column | content |\n|---|---|\n"
        "| image | the image |\n"
        "| question_id, image_id | ids in the source |\n"
        "| question | the question at this level |\n"
        "| answer | the most frequent answer |\n"
        "| answers | the answers of all annotators |\n"
        "| answer_type, question_type | as in VQA |\n"
        "| kind | the kind of belief: rephrase, complementary, adversarial; empty elsewhere |\n"
        "| level | the level of noise |\n\n"
        "`answer_key/` holds questions and answers in VQA format, to score predictions with\n"
        "`evaluate.py predictions=FILE data=vqa_json data.root=answer_key "
        f"data.test={levels.split.name}`.\n"
    )


def _card_features() -> list[dict[str, Any]]:
    """The columns in the notation of cards: [{"name", "dtype"} or {"name", "list"}]."""
    described = []
    for name, kind in features().items():
        if kind["_type"] == "Sequence":
            described.append({"name": name, "list": kind["feature"]["dtype"]})
        else:
            described.append({"name": name, "dtype": kind.get("dtype", "image")})
    return described
