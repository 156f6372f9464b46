"""Which families of AutoModelForImageTextToText work, as docs/model_families.md says.

`PYTHONPATH=tests python tests/vqa/every_family.py` writes the page.

Of each model type a tiny model is built from its configuration class, with random weights and a
processor of its own, and must give the probabilities and the texts of transformers' own `generate`.
"""

import gc
import json
import re
import sys
import tempfile
from collections import Counter
from pathlib import Path

import torch
import transformers
from tiny_vlm import FAMILIES
from tiny_vlm_any import NOT_BUILT, TYPES, build
from tiny_vlm_parts import Photographs
from transformers import AutoModelForImageTextToText, AutoProcessor
from transformers.models.auto.modeling_auto import MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES

from ivqa.errors import UserError, reason_of
from ivqa.vqa.transformers.hf_generative import HFGenerative

PAGE = Path(__file__).parents[2] / "docs" / "model_families.md"
_HEAD = """# Families of transformers

`model=hf_generative` loads what `AutoModelForImageTextToText` loads. Of each of its {number} model
types in transformers {version}, `tests/vqa/every_family.py` builds a tiny model from the
configuration class, with random weights and without any download, and compares scores and written
answers with those of transformers' own `generate`. It writes this page;
`tests/vqa/test_every_family.py` repeats it.

- tested: {tested} types have a row in the
  [table of families](vqa_models.md#families-of-generative-models), with more tests;
- works: {works} types pass;
- not built: {not_built} types have no tiny model here that runs in transformers itself, for the
  reason in the last column, so that it is not known whether they work;
- does not work: {fails} types.

| `model_type` | class | result | |
|---|---|---|---|
"""


def outcome(kind: str) -> tuple[str, str]:
    """Says whether a family works, and why not: "works", "not built" or "does not work"."""
    import test_hf_families as checks

    with tempfile.TemporaryDirectory() as place:
        try:
            if kind in NOT_BUILT:
                return "not built", NOT_BUILT[kind]
            folder = build(kind, Path(place))
            _generate(folder)
        except Exception as error:  # of transformers, in any of its models
            return "not built", _reason(error)
        try:
            model = HFGenerative.load(str(folder), max_new_tokens=4)
            checks.test_scores_are_the_probabilities_of_generate(model)
            checks.test_written_answers_are_those_of_generate(model)
            checks.test_another_picture_changes_every_score(model)
        except UserError as error:
            return "does not work", str(error).partition(";")[0]
        except Exception as error:
            return "does not work", _reason(error)
        finally:
            gc.collect()
    return "works", ""


def _generate(folder: Path) -> None:
    """Lets transformers alone write two tokens: a tiny model that cannot is none of its family."""
    model = AutoModelForImageTextToText.from_pretrained(folder)
    content = [{"type": "image", "image": Photographs().open(7)}, {"type": "text", "text": "what"}]
    inputs = AutoProcessor.from_pretrained(folder).apply_chat_template(
        [{"role": "user", "content": content}], add_generation_prompt=True, tokenize=True,
        return_dict=True, return_tensors="pt",
    )  # fmt: skip
    model.generate(**inputs, max_new_tokens=2, do_sample=False)


def _reason(error: Exception) -> str:
    if isinstance(error, AssertionError):
        return "its scores or answers are not those of `generate`"
    text = re.sub(r"[\s|`<>]+", " ", reason_of(error))
    return f"it stops with `{text[:117]}...`" if len(text) > 120 else f"it stops with `{text}`"


def tested() -> set[str]:
    """The model types of the families with tests of their own."""
    found = set()
    for family in FAMILIES.values():
        with tempfile.TemporaryDirectory() as place:
            config = json.loads((family.build(Path(place)) / "config.json").read_text())
            found.add(config["model_type"])
    return found


def rows() -> dict[str, tuple[str, str]]:
    """The results of all model types."""
    known = tested()
    found = {}
    for kind in TYPES:
        found[kind] = ("tested", "") if kind in known else outcome(kind)
        print(kind, *found[kind], flush=True)
    return found


def page(results: dict[str, tuple[str, str]]) -> str:
    """The page of docs."""
    numbers = Counter(result for result, _ in results.values())
    head = _HEAD.format(
        number=len(results), version=transformers.__version__, tested=numbers["tested"],
        works=numbers["works"], not_built=numbers["not built"], fails=numbers["does not work"],
    )  # fmt: skip
    lines = [
        f"| `{kind}` | `{MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES[kind]}` | {result} | {why} |\n"
        for kind, (result, why) in results.items()
    ]
    return head + "".join(lines)


def results_of(text: str) -> dict[str, str]:
    """The results that a page has, by model type."""
    return dict(re.findall(r"^\| `([^`]+)` \| `\w+` \| ([^|]+) \|", text, re.MULTILINE))


if __name__ == "__main__":
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.manual_seed(0)
    PAGE.write_text(page(rows()))
    sys.exit()
