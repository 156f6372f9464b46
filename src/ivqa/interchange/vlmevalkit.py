"""Questions as tables of VLMEvalKit: TSV files with images in base64."""

import base64
import csv
import json
from dataclasses import dataclass
from pathlib import Path

from ivqa.interchange.question_levels import QuestionLevels, write_answer_key
from ivqa.store.files import atomic_write

_COLUMNS = (
    "index",
    "image",
    "question",
    "answer",
    "category",
    "question_id",
    "image_id",
    "kind",
    "level",
    "answers",
)


@dataclass(frozen=True, kw_only=True)
class VLMEvalKitTables:
    """Writes NAME_level_K.tsv for each level of noise, in VLMEvalKit's format of custom VQA data.

    Args:
        post_prompt: Text after each question.
    """

    post_prompt: str = "\nAnswer the question using a single word or phrase."

    def write(self, levels: QuestionLevels, folder: Path, name: str) -> str:
        """Writes the tables and the answers in VQA format (answer_key/); see `Exporter.write`.

        The column `index` is the question's id; ids of more than 15 digits become texts such as
        q7178437733643125760, because VLMEvalKit logs to .xlsx, which rounds long numbers. The first
        question about an image has the image itself, the others have the index of that question, as
        VLMEvalKit allows. `category` is the kind of belief, or the answer type where the question
        is not a belief. `answers` is a JSON list.
        """
        tables = [f"{name}_level_{level}" for level in range(levels.num_levels)]
        for level, table in enumerate(tables):
            with atomic_write(folder / f"{table}.tsv") as draft:
                self._write_table(draft, levels, level)
        write_answer_key(levels, folder / "answer_key")
        results = ",".join(f"MODEL_{table}.xlsx" for table in tables)
        return (
            f"run it: LMUData={folder} python run.py --data {' '.join(tables)} --model MODEL "
            "--mode infer\n"
            f"score it: python evaluate.py predictions=[{results}] data=vqa_json "
            f"data.root={folder / 'answer_key'} data.test={levels.split.name}"
        )

    def _write_table(self, path: Path, levels: QuestionLevels, level: int) -> None:
        first: dict[int, str] = {}  # the first question about each image
        with path.open("w", encoding="utf-8", newline="") as stream:
            writer = csv.DictWriter(
                stream, _COLUMNS, delimiter="\t", lineterminator="\n", extrasaction="ignore"
            )
            writer.writeheader()
            for record, _, content in levels.with_images(level):
                index = _id(record["question_id"])
                shown = first.setdefault(record["image_id"], index)
                image = base64.b64encode(content).decode() if shown == index else shown
                row = {
                    **record,
                    "index": index,
                    "question_id": index,
                    "image_id": _id(record["image_id"]),
                    "image": image,
                    "question": record["question"] + self.post_prompt,
                    "category": record["kind"] or record["answer_type"],
                    "answers": json.dumps(record["answers"], ensure_ascii=False),
                }
                writer.writerow(row)


def _id(number: int) -> str:
    return f"q{number}" if abs(number) >= 10**15 else str(number)
