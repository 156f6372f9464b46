"""GQA on small files of the official layout; the oracle against judgements by hand."""

import json
from pathlib import Path
from typing import Any

import pytest

from ivqa.data import DataError, GQADataset
from ivqa.data.formats.gqa import image_number, question_number
from ivqa.data.formats.gqa_programs import layout_of, program_of
from ivqa.vqa.networks.layouts import ANSWER_MODULES, MAP_MODULES, LayoutGrammar


def box(name: str, attributes: list[str], links: list[tuple[str, str]], x: int = 40) -> Any:
    """An object whose centre is at `x` percent of the width."""
    return {
        "name": name,
        "x": x - 5,
        "y": 40,
        "w": 10,
        "h": 20,
        "attributes": attributes,
        "relations": [{"name": relation, "object": number} for relation, number in links],
    }


GRAPHS = {
    "2354786": {
        "width": 100,
        "height": 100,
        "location": "kitchen",
        "objects": {
            "1": box("dog", ["brown", "small"], [("to the left of", "2")], x=10),
            "2": box("refrigerator", ["white"], [("to the right of", "1"), ("near", "3")], x=50),
            "3": box("table", ["wood", "brown"], [], x=90),
            "4": box("cup", ["red"], [("on", "3")], x=88),
            "5": box("cup", ["blue"], [("on", "3")], x=92),
        },
    },
    "n161313": {
        "width": 100,
        "height": 100,
        "objects": {"7": box("duck", ["white"], []), "8": box("car", [], [])},
    },
}


def question(text: str, image: str, answer: str, *steps: str) -> dict[str, Any]:
    """A record; the steps are like "verify color | red | 0"."""
    semantic = []
    for step in steps:
        operation, argument, inputs = (part.strip() for part in step.split("|", 2))
        argument = argument.replace("/", "|")
        numbers = [int(i) for i in inputs.split()]
        semantic.append({"operation": operation, "dependencies": numbers, "argument": argument})
    return {
        "semantic": semantic,
        "entailed": [],
        "equivalent": [],
        "question": text,
        "imageId": image,
        "isBalanced": True,
        "groups": {"global": "color", "local": "10q"},
        "answer": answer,
        "semanticStr": "",
        "annotations": {"answer": {}, "question": {}, "fullAnswer": {}},
        "types": {"detailed": "existC", "semantic": "obj", "structural": "verify"},
        "fullAnswer": f"It is {answer}.",
    }


KITCHEN, POND = "2354786", "n161313"
DOG, FRIDGE = "select | dog (1) |", "select | refrigerator (2) |"
QUESTIONS = {
    "05515938": question("Is there a dog?", KITCHEN, "yes", DOG, "exist | ? | 0"),
    "07": question("Is there a cat?", KITCHEN, "no", "select | cat (-) |", "exist | ? | 0"),
    "1": question("What color is the dog?", KITCHEN, "brown", DOG, "query | color | 0"),
    "2": question("Is the dog white?", KITCHEN, "no", DOG, "verify color | white | 0"),
    "3": question("Is the fridge white?", KITCHEN, "yes", FRIDGE, "verify color | white | 0"),
    "4": question(
        "What color is the animal?", POND, "white", "select | animal (7) |", "query | color | 0"
    ),
    "5": question(
        "What is the animal?", KITCHEN, "dog", "select | animal (1) |", "query | name | 0"
    ),
    "6": question(
        "Is the dog left of the fridge?", KITCHEN, "yes", FRIDGE,
        "verify rel | dog,to the left of,s (1) | 0",
    ),
    "8": question(
        "Is the dog right of the fridge?", KITCHEN, "no", FRIDGE,
        "verify rel | dog,to the right of,s (1) | 0",
    ),
    "9": question(
        "Is the dog near a cat?", KITCHEN, "no", DOG, "verify rel | cat,near,o (-) | 0"
    ),
    "10": question(
        "Is the dog near the table?", KITCHEN, "no", DOG, "verify rel | table,near,o (3) | 0"
    ),
    "11": question(
        "Which side of the fridge is the dog on?", KITCHEN, "left", FRIDGE,
        "choose rel | dog,to the right of/to the left of,s (1) | 0",
    ),
    "12": question(
        "What is on the table?", KITCHEN, "cup", "select | table (3) |",
        "relate | _,on,s (4) | 0", "query | name | 1",
    ),
    "13": question(
        "What color is the cup on the table?", KITCHEN, "red", "select | table (3) |",
        "relate | cup,on,s (4) | 0", "query | color | 1",
    ),
    "14": question(
        "Is the red cup small?", KITCHEN, "yes", "select | cup (4) |", "filter color | red | 0",
        "verify size | small | 1",
    ),
    "15": question(
        "What is the name of the animal that is not white?", KITCHEN, "dog",
        "select | animal (1) |", "filter color | not(white) | 0", "query | name | 1",
    ),
    "16": question(
        "Are there both a dog and a cat?", KITCHEN, "no", DOG, "exist | ? | 0",
        "select | cat (-) |", "exist | ? | 2", "and | | 1 3",
    ),
    "17": question(
        "Do you see either a dog or a cat?", KITCHEN, "yes", DOG, "exist | ? | 0",
        "select | cat (-) |", "exist | ? | 2", "or | | 1 3",
    ),
    "18": question(
        "Do the dog and the table have the same color?", KITCHEN, "yes", DOG,
        "select | table (3) |", "same color | | 0 1",
    ),
    "19": question(
        "Do the dog and the fridge have different colors?", KITCHEN, "yes", DOG, FRIDGE,
        "different color | | 0 1",
    ),
    "20": question("Which room is it?", KITCHEN, "kitchen", "select | scene |", "query | room | 0"),
    "21": question(
        "Is the dog on the left or on the right?", KITCHEN, "left", DOG,
        "choose hposition | left/right | 0",
    ),
    "22": question(
        "Is the dog blue or brown?", KITCHEN, "brown", DOG, "choose color | blue/brown | 0"
    ),
    "23": question(
        "What is healthier, the cup or the dog?", KITCHEN, "dog", "select | cup (4) |", DOG,
        "choose healthier | | 0 1",
    ),
    "24": question("Is it alive?", KITCHEN, "yes", DOG, "verify | alive | 0"),
    "25": question("Is it alive?", POND, "yes", "select | duck (7) |", "verify | alive | 0"),
}  # fmt: skip


def write_root(root: Path, questions: dict[str, Any] = QUESTIONS) -> Path:
    for folder in ("questions", "sceneGraphs"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    (root / "questions" / "val_balanced_questions.json").write_text(json.dumps(questions))
    (root / "sceneGraphs" / "val_sceneGraphs.json").write_text(json.dumps(GRAPHS))
    return root


def test_the_columns(tmp_path: Path, roots: Any):
    root = write_root(tmp_path)
    for name in ("2354786", "n161313"):
        roots.image(root / "images" / f"{name}.png")
    dataset = GQADataset(root)
    split = dataset.split("val")
    assert split.question_ids.tolist()[:2] == [105515938, 107]
    assert split.image_ids.tolist()[:2] == [2354786, 2354786]
    assert split.image_ids.tolist()[5] == 1000161313
    assert split.answers[0] == ["yes"]
    assert split.answer_types[:3] == ["yes/no", "yes/no", "other"]
    assert split.question_types[0] == "existC"
    assert split.extras["structural"][0] == "verify"
    assert split.extras["group"][0] == "color"
    assert split.require_images().path(1000161313).name == "n161313.png"
    assert split.require_images().path(2354786).name == "2354786.png"
    assert dataset.oracle("train") is None
    # Equal answers share one list, so that millions of questions fit into memory.
    assert split.answers[0] is split.answers[4]


def test_a_split_may_be_a_folder_of_files(tmp_path: Path):
    folder = tmp_path / "questions" / "train_all_questions"
    folder.mkdir(parents=True)
    for number, keys in enumerate((("07", "1"), ("2",))):
        part = {key: QUESTIONS[key] for key in keys}
        (folder / f"train_all_questions_{number}.json").write_text(json.dumps(part))
    dataset = GQADataset(tmp_path, train="train_all", val=None, test=None)
    assert dataset.split("train").question_ids.tolist() == [107, 11, 12]
    assert not dataset.lacks_annotations("train")
    first = dataset.cache_key()
    (folder / "train_all_questions_1.json").write_text(json.dumps({"3": QUESTIONS["3"]}))
    assert GQADataset(tmp_path, train="train_all", val=None, test=None).cache_key() != first
    (folder / "train_all_questions_1.json").write_text(json.dumps({"07": QUESTIONS["07"]}))
    with pytest.raises(DataError, match=r"train_all_questions_1\.json: question 07: occurs more"):
        GQADataset(tmp_path, train="train_all", val=None, test=None).split("train")


def test_layouts(tmp_path: Path):
    expected = {
        "05515938": "_Find _Exist",
        "1": "_Find _Describe",
        "6": "_Find _Describe",
        "12": "_Find _Transform _Describe",
        "13": "_Find _Transform _Find _And _Describe",
        "14": "_Find _Describe",
        "16": "_Find _Find _SameProperty",
        "18": "_Find _Find _SameProperty",
        "20": "_Scene",
    }
    grammar = LayoutGrammar([*MAP_MODULES, *ANSWER_MODULES])
    for key, record in QUESTIONS.items():
        layout = layout_of(program_of(record["semantic"]))
        assert " ".join(layout) == expected.get(key, " ".join(layout))
        assert grammar.valid(grammar.encode([layout], 12)).all(), record["question"]
    split = GQADataset(write_root(tmp_path)).split("val")
    assert split.layouts is not None
    assert split.layouts[11] == ["_Find", "_Describe"]


# Questions that the scene graph does not decide: an attribute or a relation that is not listed, a
# comparison, and a text with two programs.
UNDECIDED = {"10", "14", "23", "24", "25"}


@pytest.mark.parametrize("key", list(QUESTIONS))
def test_the_oracle_gives_the_published_answers(tmp_path: Path, key: str):
    oracle = GQADataset(write_root(tmp_path)).oracle("val")
    assert oracle is not None
    record = QUESTIONS[key]
    judged = oracle.judge(image_number(record["imageId"]), record["question"])
    assert judged.understood == (key not in UNDECIDED)
    if judged.understood:
        assert judged.premise
        assert record["answer"] in judged.acceptable
        # Two cups are on the table.
        assert judged.acceptable == ({"red", "blue"} if key == "13" else {record["answer"]})


def test_the_oracle_judges_questions_about_other_photographs(tmp_path: Path):
    oracle = GQADataset(write_root(tmp_path)).oracle("val")
    assert oracle is not None
    pond = image_number(POND)

    def judged(text: str) -> Any:
        one = oracle.judge(pond, text)
        return one.answer if one.premise else one.premise

    assert judged("is there a dog") == "no"
    assert judged("What color is the dog?") is False  # no dog, so a false premise
    assert judged("What is the animal?") == "duck"  # learned from question 4
    assert judged("What is the name of the animal that is not white?") is False
    assert judged("What is on the table?") is False
    assert judged("Which room is it?") is None
    assert judged("Is there a unicorn?") is None
    assert oracle.fact("Is there a DOG") == oracle.fact("Is there a dog?") is not None
    assert oracle.fact("Is it alive?") is None
    with pytest.raises(KeyError, match="does not know image 5"):
        oracle.judge(5, "Is there a dog?")


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        (["exist | ? |"], "step 0: exist has a wrong number of dependencies"),
        ([DOG, "select | cat (-) | 0", "exist | ? | 1"], "step 1: select has a wrong number"),
        ([DOG, "exist | ? | 1"], "step 1: a dependency is not an earlier step"),
        ([DOG, "guess | ? | 0"], "step 1: the operation 'guess' is unknown"),
        ([DOG], "the last step gives no answer"),
    ],
)
def test_wrong_programs_are_refused(steps: list[str], message: str):
    with pytest.raises(ValueError, match=message):
        program_of(question("Is it?", KITCHEN, "yes", *steps)["semantic"])


@pytest.mark.parametrize(
    ("thing", "message"),
    [
        (box("dog", [], [("on", "99")]), "object 3: relations: 'on' leads to object 99, which"),
        (box(5, [], []), "object 3: names of objects, attributes and relations must be .* not 5"),
        (box("dog", [7], []), "object 3: names of objects, .* must be texts, not 7"),
        (box("dog", [], [(3.5, "1")]), "object 3: names of objects, .* must be texts, not 3.5"),
    ],
)
def test_wrong_scene_graphs_are_reported(tmp_path: Path, thing: Any, message: str):
    root = write_root(tmp_path)
    graphs = {**GRAPHS, "5": {"objects": {"1": box("cup", [], []), "3": thing}}}
    (root / "sceneGraphs" / "val_sceneGraphs.json").write_text(json.dumps(graphs))
    with pytest.raises(DataError, match=rf"val_sceneGraphs\.json: image 5: {message}"):
        GQADataset(root).oracle("val")


def test_types_and_places_must_be_texts(tmp_path: Path):
    root = write_root(tmp_path, {"07": {**QUESTIONS["07"], "types": {"detailed": 5}}})
    with pytest.raises(DataError, match=r"question 07: types\.detailed: must be text, not 5"):
        GQADataset(root).split("val")
    root = write_root(tmp_path)
    graphs = {KITCHEN: {**GRAPHS[KITCHEN], "location": 5}, POND: GRAPHS[POND]}
    (root / "sceneGraphs" / "val_sceneGraphs.json").write_text(json.dumps(graphs))
    with pytest.raises(DataError, match=f"image {KITCHEN}: location must be text, not 5"):
        GQADataset(root).oracle("val")


def test_ids():
    assert question_number("0123") != question_number("123")
    with pytest.raises(DataError, match="not a text of 1 to 17 digits"):
        question_number("12a")
    with pytest.raises(DataError, match="not like 2354786 or n161313"):
        image_number("x12")


def test_faults_are_reported_with_file_and_question(tmp_path: Path):
    wrong = QUESTIONS["1"] | {"semantic": [{"operation": "guess", "argument": ""}]}
    questions = {
        "a": QUESTIONS["1"],
        "1": wrong,
        "2": QUESTIONS["2"] | {"imageId": "img"},
        "3": {"question": "Who?", "answer": "me"},
    }
    dataset = GQADataset(write_root(tmp_path, questions))
    with pytest.raises(DataError) as error:
        dataset.split("val")
    lines = str(error.value).split("\n")[1:]
    assert [line.partition("questions.json: ")[2].partition(";")[0] for line in lines] == [
        "question a: its id is not a text of 1 to 17 digits",
        "question 1: semantic: step 0 is incomplete (KeyError('dependencies'))",
        "question 2: imageId: the image id 'img' is not like 2354786 or n161313",
        "question 3: imageId: is missing",
    ]
    lonely = {"1": QUESTIONS["1"] | {"imageId": "77"}}
    with pytest.raises(DataError, match=r"question 1: image 77: is not in val_sceneGraphs\.json;"):
        GQADataset(write_root(tmp_path, lonely)).oracle("val")
    (tmp_path / "sceneGraphs" / "val_sceneGraphs.json").write_text(
        json.dumps({"1": {"width": 3, "height": 3, "objects": {"5": {"name": "dog"}}}})
    )
    with pytest.raises(DataError, match=r"val_sceneGraphs\.json: image 1: object 5 is incomplete"):
        dataset.oracle("val")
