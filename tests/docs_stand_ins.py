"""Small stand-ins for what the commands of the guides name: DIR, FOLDER, photo.jpg, "...".

They are made once, on first use.
"""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

from documented_commands import Command
from ivqa.scenes import generate_scenes


class StandIns:
    """Makes stand-ins.

    Args:
        folder: Where they are kept.
        page: The folder in which the commands of a page run.
    """

    def __init__(self, folder: Path, page: Path) -> None:
        self.folder, self.page = folder, page
        folder.mkdir(parents=True, exist_ok=True)

    def filled(self, word: str, command: Command) -> str:
        """A word of a command in which names have become paths that exist.

        Args:
            word: One argument.
            command: The command; its choices say which kind of folder is wanted.

        Returns:
            The word, with absolute paths.
        """
        for form, make in self._kinds(command).items():
            if found := re.search(form, word):
                word = word.replace(found[1], str(make()))
        return re.sub(r"(?<=[=\[,])[\w/]+/\.\.\.[\w/]*", lambda found: self._run(found[0]), word)

    def _kinds(self, command: Command) -> dict[str, Callable[[], Path]]:
        """By the form of a word, of which the first group is replaced."""
        text = " ".join(command.words)
        official = re.search("data=vqa_v[12]", text) is not None
        runs = self.page / "outputs"
        return {
            r"^(?:data|vqa\.trained_on)\.root=(DIR|ROOT)$": (
                self.official_root if official else self.root
            ),
            r"^(DIR)$": self.root,
            r"^images=(FOLDER)$": lambda: self.picture().parent,
            r"^data\.path=(FOLDER|RUN/export)$": self.hub_data,
            r"^model\.path=(MODEL)$": lambda: self.model(text),
            r"path=(FOLDER)$": lambda: self.model(text),
            r"weights=(FILE)$": self.weights,
            r"^noise\.path=(FILE)$": self.wordings,
            r"^image=(scene\.png|photo\.jpg)$": self.picture,
            r"^questions=(RUN)/polls$": lambda: _latest(runs / "polls", "**/polls").parent,
            r"noise\.path=(bqd\.parquet)$": lambda: _latest(runs / "merge", "**/bqd.parquet"),
            r"source\.path=(FILE)$": lambda: _latest(runs / "merge", "**/bqd.parquet"),
            r"^predictions=\[(level_0\.json),": self.answers,
            r"(level_1\.json)": self.answers,
            r"(level_2\.json)": self.answers,
        }

    def root(self) -> Path:
        """A data root in the layout of docs/data.md, made of scenes."""
        sizes = {"train": 60, "val": 20}
        return generate_scenes(self.folder / "root", images=sizes, workers=1, progress=False)

    def official_root(self) -> Path:
        """The same scenes by the file names of VQA 1.0 and 2.0, with a test set without answers."""
        source, root = self.root(), self.folder / "vqa"
        for split, name in (("train", "train2014"), ("val", "val2014"), ("val", "test2015")):
            images = root / "images" / name
            if images.is_dir():
                continue
            shutil.copytree(source / "images" / split, images)
            for version in ("", "v2_"):
                questions = root / f"{version}OpenEnded_mscoco_{name}_questions.json"
                shutil.copy(source / f"questions_{split}.json", questions)
                if name != "test2015":
                    annotations = root / f"{version}mscoco_{name}_annotations.json"
                    shutil.copy(source / f"annotations_{split}.json", annotations)
        test = root / "v2_OpenEnded_mscoco_test2015_questions.json"
        shutil.copy(test, root / "v2_OpenEnded_mscoco_test-dev2015_questions.json")
        return root

    def hub_data(self) -> Path:
        """The same scenes in Parquet files, with an exported level of noise beside the splits."""
        return self._once("hub", self._write_hub_data)

    def _write_hub_data(self, folder: Path) -> None:
        import datasets

        root = self.root()
        for name in ("train", "validation", "test", "level_0"):
            split = "train" if name == "train" else "val"
            given = json.loads((root / f"annotations_{split}.json").read_text())["annotations"]
            answers = {one["question_id"]: one["answers"] for one in given}
            asked = json.loads((root / f"questions_{split}.json").read_text())["questions"]
            files = {int(file.stem[-12:]): file for file in (root / "images" / split).iterdir()}
            rows = [
                {
                    "question": one["question"],
                    "answers": [answer["answer"] for answer in answers[one["question_id"]]],
                    "image": str(files[one["image_id"]]),
                }
                for one in asked
            ]
            data = datasets.Dataset.from_list(rows).cast_column("image", datasets.Image())
            data.to_parquet(folder / "data" / f"{name}-00000-of-00001.parquet")

    def model(self, text: str) -> Path:
        """A small model of transformers with random weights, of the kind that a command needs."""
        import tiny_transformers as tiny

        if "question_encoder=transformers" in text:
            return self._once("bert", _tiny_bert)
        if "hf_classifier" in text:
            return self._once("vilt", lambda folder: tiny.tiny_vilt(folder, tiny.ANSWERS))
        if "hf_blip" in text:
            return self._once("blip", tiny.tiny_blip)
        return self._once("llava", tiny.tiny_llava)

    def weights(self) -> Path:
        """A state_dict of timm's convnext_atto with random weights."""
        import timm
        import torch

        file = self.folder / "convnext_atto.pt"
        if not file.is_file():
            torch.save(timm.create_model("convnext_atto").state_dict(), file)
        return file

    def wordings(self) -> Path:
        """Another wording of each question of the validation split."""
        questions = json.loads((self.root() / "questions_val.json").read_text())["questions"]
        file = self.folder / "wordings.json"
        file.write_text(json.dumps({one["question"]: ["What is it?"] for one in questions}))
        return file

    def picture(self) -> Path:
        """A picture of the test data."""
        return min((self.root() / "images" / "val").iterdir())

    def answers(self) -> Path:
        """A result file: any answer to each question that `write_noisy_questions` wrote."""
        file = self.page / "answers.json"
        questions = json.loads((self.page / "noisy" / "questions_test_level_0.json").read_text())
        records = [
            {"question_id": question["question_id"], "answer": "yes"}
            for question in questions["questions"]
        ]
        file.write_text(json.dumps(records))
        return file

    def _once(self, name: str, make: Callable[[Path], object]) -> Path:
        folder = self.folder / name
        if not folder.is_dir():
            make(folder)
        return folder

    def _run(self, path: str) -> str:
        """The first finished run for outputs/evaluate/mlb/..., the last one for a multirun."""
        before, _, after = path.partition("...")
        is_multirun = "multirun" in before
        found = [
            run
            for run in self.page.glob(f"{before}*")
            if (run / after.strip("/")).exists() and any(run.rglob("metrics.json"))
        ]
        if not found:
            raise FileNotFoundError(f"no command of the page wrote {path}")
        ordered = sorted(found, key=lambda run: run.stat().st_mtime)
        return str(ordered[-1 if is_multirun else 0]) + after


def _latest(folder: Path, pattern: str) -> Path:
    return max(folder.glob(pattern), key=lambda path: path.stat().st_mtime)


def _tiny_bert(folder: Path) -> None:
    from transformers import BertConfig, BertModel

    import tiny_transformers as tiny

    tokenizer = tiny.tiny_tokenizer(bert=True, cls_token="[CLS]", sep_token="[SEP]")
    tiny.save_tiny(BertModel(BertConfig(**tiny.TEXT, vocab_size=len(tokenizer))), tokenizer, folder)
