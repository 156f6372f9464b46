"""CLEVR: programs against an independent interpreter, layouts, the learned language, the oracle."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ivqa.data import ClevrDataset, DataError
from ivqa.data.formats.clevr_language import ClevrLanguage
from ivqa.data.formats.clevr_programs import (
    ClevrScene,
    answers_of,
    fact_of,
    kind_of,
    layout_of,
    program_of,
)
from ivqa.vqa.networks.layouts import ANSWER_MODULES, MAP_MODULES, LayoutGrammar
from ivqa.vqa.scores import score_answers

COLORS = ("gray", "red", "blue", "green", "brown", "purple", "cyan", "yellow")
SIZES, MATERIALS, SHAPES = ("large", "small"), ("rubber", "metal"), ("cube", "sphere", "cylinder")
VALUES = {"size": SIZES, "color": COLORS, "material": MATERIALS, "shape": SHAPES}
Steps = list[dict[str, Any]]


def scene_of(things: list[tuple[str, str, str, str]], places: list[tuple[float, float]]) -> Any:
    """A scene record: things as (size, color, material, shape), places as (x, depth)."""
    names = ("size", "color", "material", "shape")
    numbers = range(len(things))
    x, depth = zip(*places, strict=True)
    return {
        "objects": [dict(zip(names, thing, strict=True)) for thing in things],
        "relationships": {
            "left": [[j for j in numbers if x[j] < x[i]] for i in numbers],
            "right": [[j for j in numbers if x[j] > x[i]] for i in numbers],
            "behind": [[j for j in numbers if depth[j] > depth[i]] for i in numbers],
            "front": [[j for j in numbers if depth[j] < depth[i]] for i in numbers],
        },
    }


# From left to right: a small red rubber cube, a large blue metal sphere behind it, a small blue
# metal sphere in front, a large red metal cylinder at the back.
RECORD = scene_of(
    [
        ("small", "red", "rubber", "cube"),
        ("large", "blue", "metal", "sphere"),
        ("small", "blue", "metal", "sphere"),
        ("large", "red", "metal", "cylinder"),
    ],
    [(0, 1), (1, 2), (2, 0), (3, 3)],
)
SCENE = ClevrScene.from_json(RECORD)


def steps(*written: str) -> Steps:
    """Steps from texts such as "relate[left] 2"."""
    made = []
    for text in written:
        name, *inputs = text.split()
        name, _, value = name.rstrip("]").partition("[")
        values = [value] if value else []
        made.append({"function": name, "inputs": [int(i) for i in inputs], "value_inputs": values})
    return made


BLUE_SPHERES = ("scene", "filter_color[blue] 0", "filter_shape[sphere] 1")
TWO = ("scene", "filter_shape[cube] 0", "unique 1", "scene", "filter_shape[cylinder] 3", "unique 4")
TABLE = [
    (("scene", "count 0"), {"4"}, "_Find _Count"),
    ((*BLUE_SPHERES, "count 2"), {"2"}, "_Find _Count"),
    ((*BLUE_SPHERES, "exist 2"), {"yes"}, "_Find _Exist"),
    (("scene", "filter_color[cyan] 0", "exist 1"), {"no"}, "_Find _Exist"),
    # Two spheres where there must be one: both answers are right.
    ((*BLUE_SPHERES, "unique 2", "query_size 3"), {"large", "small"}, "_Find _Describe"),
    (("scene", "filter_color[cyan] 0", "unique 1", "query_shape 2"), set(), "_Find _Describe"),
    ((*TWO[:3], "query_material 2"), {"rubber"}, "_Find _Describe"),
    (
        (*TWO[:3], "relate[behind] 2", "filter_size[large] 3", "count 4"),
        {"2"},
        "_Find _Transform _Find _And _Count",
    ),
    (
        (*TWO[:3], "relate[front] 2", "unique 3", "query_color 4"),
        {"blue"},
        "_Find _Transform _Describe",
    ),
    ((*TWO[:3], "relate[left] 2", "exist 3"), {"no"}, "_Find _Transform _Exist"),
    ((*TWO[:3], "relate[right] 2", "count 3"), {"3"}, "_Find _Transform _Count"),
    ((*TWO[:3], "same_size 2", "count 3"), {"1"}, "_Find _Transform _Count"),
    (
        (*TWO[:3], "same_color 2", "unique 3", "query_shape 4"),
        {"cylinder"},
        "_Find _Transform _Describe",
    ),
    ((*TWO[:3], "same_material 2", "exist 3"), {"no"}, "_Find _Transform _Exist"),
    (
        (
            *TWO[3:4],
            "filter_size[small] 0",
            "filter_shape[sphere] 1",
            "unique 2",
            "same_shape 3",
            "count 4",
        ),
        {"1"},
        "_Find _Transform _Count",
    ),
    (
        (*TWO, "relate[left] 5", "relate[behind] 2", "intersect 6 7", "count 8"),
        {"1"},
        "_Find _Transform _Find _Transform _And _Count",
    ),
    (
        ("scene", "filter_shape[cube] 0", "scene", "filter_color[red] 2", "union 1 3", "count 4"),
        {"2"},
        "_Find _Find _Or _Count",
    ),
    (
        (*TWO, "query_color 2", "query_color 5", "equal_color 6 7"),
        {"yes"},
        "_Find _Find _SameProperty",
    ),
    ((*TWO, "query_size 2", "query_size 5", "equal_size 6 7"), {"no"}, "_Find _Find _SameProperty"),
    (
        (*TWO, "query_shape 2", "query_shape 5", "equal_shape 6 7"),
        {"no"},
        "_Find _Find _SameProperty",
    ),
    (
        (*TWO, "query_material 2", "query_material 5", "equal_material 6 7"),
        {"no"},
        "_Find _Find _SameProperty",
    ),
    (
        ("scene", "filter_color[red] 0", "count 1", "scene", "count 3", "less_than 2 4"),
        {"yes"},
        "_Find _Find _MoreNum",
    ),
    (
        ("scene", "filter_color[red] 0", "count 1", "scene", "count 3", "greater_than 2 4"),
        {"no"},
        "_Find _Find _MoreNum",
    ),
    (
        (
            "scene",
            "filter_color[red] 0",
            "count 1",
            *("scene", "filter_color[blue] 3", "count 4"),
            "equal_integer 2 5",
        ),
        {"yes"},
        "_Find _Find _EqualNum",
    ),
]


@pytest.mark.parametrize(("written", "answers", "layout"), TABLE)
def test_programs_and_layouts_by_hand(written: tuple[str, ...], answers: set[str], layout: str):
    program = program_of(steps(*written))
    assert answers_of(program, SCENE) == answers
    assert " ".join(layout_of(program)) == layout
    grammar = LayoutGrammar([*MAP_MODULES, *ANSWER_MODULES])
    assert grammar.valid(grammar.encode([layout_of(program)], 12)).all()


def test_every_function_of_clevr_is_in_the_table():
    used = {step["function"] for written, _, _ in TABLE for step in steps(*written)}
    expected = {"scene", "unique", "relate", "union", "intersect", "count", "exist"}
    expected |= {"equal_integer", "less_than", "greater_than"}
    for name in VALUES:
        expected |= {f"query_{name}", f"same_{name}", f"equal_{name}", f"filter_{name}"}
    assert used | {"filter_material"} == expected


def test_kinds_of_questions_are_those_of_the_paper():
    """Tables 1 and 2 of the paper have five kinds; what is compared gives two of them."""
    kinds: dict[str, set[str]] = {}
    for written, _, _ in TABLE:
        program = program_of(steps(*written))
        kinds.setdefault(kind_of(program), set()).add(steps(*written)[-1]["function"])
    assert kinds == {
        "exist": {"exist"},
        "count": {"count"},
        "compare_integer": {"equal_integer", "less_than", "greater_than"},
        "compare_attribute": {f"equal_{name}" for name in VALUES},
        "query_attribute": {f"query_{name}" for name in VALUES},
    }


def interpreted(program: Steps, scene: Any) -> str | None:
    """An independent interpreter of the published list; None where "unique" does not meet one."""
    things, done = scene["objects"], []
    for step in program:
        name, value = step["function"], (step["value_inputs"] or [None])[0]
        given = [done[i] for i in step["inputs"]]
        kind, _, attribute = name.partition("_")
        if name == "scene":
            result: Any = list(range(len(things)))
        elif kind == "filter":
            result = [i for i in given[0] if things[i][attribute] == value]
        elif name == "unique":
            if len(given[0]) != 1:
                return None
            result = given[0][0]
        elif name == "relate":
            result = scene["relationships"][value][given[0]]
        elif kind == "same":
            own = things[given[0]][attribute]
            result = [i for i, t in enumerate(things) if t[attribute] == own and i != given[0]]
        elif name in ("union", "intersect"):
            operation = set.union if name == "union" else set.intersection
            result = sorted(operation(*map(set, given)))
        elif name in ("count", "exist"):
            result = len(given[0]) if name == "count" else len(given[0]) > 0
        elif kind == "query":
            result = things[given[0]][attribute]
        else:
            result = {"less": given[0] < given[1], "greater": given[0] > given[1]}.get(
                kind, given[0] == given[1]
            )
        done.append(result)
    return {True: "yes", False: "no"}[done[-1]] if isinstance(done[-1], bool) else str(done[-1])


WORDS = {
    "large": ("large", "big"),
    "small": ("small", "tiny"),
    "metal": ("metallic", "metal", "shiny"),
    "rubber": ("rubber", "matte"),
    "cube": ("cube", "block"),
    "sphere": ("sphere", "ball"),
    "left": ("left of", "to the left of", "on the left side of"),
    "behind": ("behind",),
    "right": ("right of", "to the right of", "on the right side of"),
    "front": ("in front of",),
    "": ("thing", "object"),
}
# Texts with phrases {0}, {1}, ... and relations {r}; programs with filters F0, F1, ...
TEMPLATES = [
    ("How many {0}s are there?", "scene F0 count"),
    ("There is a {0}; what color is it?", "scene F0 unique query_color"),
    ("What size is the {1} [that is] {r} the {0}?", "scene F0 unique relate F1 unique query_size"),
    ("Is there a {1} {r} the {0}?", "scene F0 unique relate F1 exist"),
    ("How many other things are the same shape as the {0}?", "scene F0 unique same_shape count"),
    ("Is any other {1} of the same color as the {0}?", "scene F0 unique same_color F1 exist"),
    ("How many things are either {0}s or {1}s?", "scene F0 scene F1 union count"),
    ("Are there more {0}s than {1}s?", "scene F0 count scene F1 count greater_than"),
    ("Are there fewer {0}s than {1}s?", "scene F0 count scene F1 count less_than"),
    ("Is the {0} made of the same material as the {1}?",
     "scene F0 unique query_material scene F1 unique query_material equal_material"),
]  # fmt: skip


def random_scene(rng: np.random.Generator) -> Any:
    number = int(rng.integers(3, 9))
    things = [tuple(str(rng.choice(values)) for values in VALUES.values()) for _ in range(number)]
    return scene_of(things, rng.random((number, 2)).tolist())  # type: ignore[arg-type]


def question_of(template: tuple[str, str], rng: np.random.Generator) -> tuple[str, Steps]:
    """A question of a template with random phrases, and its program."""
    text, functions = template
    text = text.replace("[that is] ", "that is " if rng.random() < 0.5 else "")
    phrases = [
        {name: str(rng.choice(values)) for name, values in VALUES.items() if rng.random() < 0.4}
        for _ in range(2)
    ]
    relation = str(rng.choice(("left", "right", "behind", "front")))
    said = []
    for phrase in phrases:
        values = [phrase.get(name, "") for name in VALUES]
        words = [str(rng.choice(WORDS.get(v, (v,)))) for v in values[:-1] if v]
        said.append(" ".join([*words, str(rng.choice(WORDS.get(values[-1], (values[-1],))))]))
    text = text.format(*said, r=str(rng.choice(WORDS[relation])))
    made: Steps = []
    open_ends: list[int] = []
    for name in functions.split():
        if name.startswith("F"):
            parts = [(f"filter_{key}", [v]) for key, v in phrases[int(name[1])].items()]
        else:
            parts = [(name, [relation] if name == "relate" else [])]
        for function, values in parts:
            two = function in ("union", "less_than", "greater_than", "equal_material")
            taken = 0 if function == "scene" else 1 + two
            inputs = [open_ends.pop() for _ in range(taken)][::-1]
            open_ends.append(len(made))
            made.append({"function": function, "inputs": inputs, "value_inputs": values})
    return text, made


def test_programs_equal_an_independent_interpreter():
    rng = np.random.default_rng(0)
    certain = 0
    for _ in range(1500):
        scene = random_scene(rng)
        _, program = question_of(TEMPLATES[rng.integers(len(TEMPLATES))], rng)
        found = answers_of(program_of(program), ClevrScene.from_json(scene))
        expected = interpreted(program, scene)
        if expected is not None:
            assert found == {expected}, program
            certain += 1
    assert certain > 400


def test_the_language_is_learned_exactly():
    rng = np.random.default_rng(1)
    language = ClevrLanguage()
    for _ in range(600):
        text, program = question_of(TEMPLATES[rng.integers(len(TEMPLATES))], rng)
        language.learn(text, program_of(program))
    parsed = 0
    for _ in range(600):
        text, program = question_of(TEMPLATES[rng.integers(len(TEMPLATES))], rng)
        found = language.parse(text)
        assert found in (None, program_of(program)), text
        parsed += found is not None
    assert parsed > 590
    for text in ("How many cubes?", "Why is the cube red?", "", "What is there?"):
        assert language.parse(text) is None
    # Phrases that are equal do not show which slot they fill.
    language = ClevrLanguage()
    language.learn("Are there more cubes than cubes?", program_of(steps(
        "scene", "filter_shape[cube] 0", "count 1", "scene", "filter_shape[cube] 3", "count 4",
        "greater_than 2 5",
    )))  # fmt: skip
    assert len(language) == 0


def test_a_template_with_two_meanings_is_not_understood():
    language = ClevrLanguage()
    one = program_of(steps("scene", "filter_shape[cube] 0", "count 1"))
    other = program_of(steps("scene", "filter_shape[sphere] 0", "exist 1"))
    language.learn("How about the cubes?", one)
    assert language.parse("How about the cubes?") == one
    language.learn("How about the spheres?", other)
    assert language.parse("How about the cubes?") is None


def test_facts_do_not_depend_on_the_side_of_a_comparison():
    def compared(first: str, second: str, name: str) -> Any:
        return fact_of(program_of(steps(
            "scene", f"filter_color[{first}] 0", "count 1",
            "scene", f"filter_color[{second}] 3", "count 4", f"{name} 2 5",
        )))  # fmt: skip

    assert compared("red", "blue", "equal_integer") == compared("blue", "red", "equal_integer")
    assert compared("red", "blue", "less_than") == compared("blue", "red", "greater_than")
    assert compared("red", "blue", "less_than") != compared("red", "blue", "greater_than")


@pytest.mark.parametrize(
    ("written", "message"),
    [
        (("scene", "filter_shape[cube] 0"), "the last step gives no answer"),
        (("scene", "colour 0"), "step 1: the function 'colour' is unknown"),
        (("scene", "unique 0", "count 1"), r"step 2: count takes \('things',\), not \('thing',\)"),
        (("scene", "count 5"), "step 1: an input is not an earlier step"),
        (("scene", "unique 0", "relate[above] 1"), "step 2: the relation 'above' is unknown"),
    ],
)
def test_wrong_programs_are_refused(written: tuple[str, ...], message: str):
    with pytest.raises(ValueError, match=message):
        program_of(steps(*written))


def write_root(root: Path, answers: list[Any]) -> Path:
    questions = [
        {
            "question_index": number,
            "image_index": 0,
            "image_filename": "CLEVR_val_000000.png",
            "question": text,
            "question_family_index": 3,
            "split": "val",
            "program": steps(*written),
            "answer": answer,
        }
        for number, ((text, written), answer) in enumerate(
            zip(
                [
                    ("How many blue balls are there?", (*BLUE_SPHERES, "count 2")),
                    ("What color is the block?", (*TWO[:3], "query_color 2")),
                ],
                answers,
                strict=True,
            )
        )
    ]
    for name in ("questions", "scenes"):
        (root / "CLEVR_v1.0" / name).mkdir(parents=True, exist_ok=True)
    files = root / "CLEVR_v1.0"
    content: dict[str, Any] = {"info": {"split": "val"}, "questions": questions}
    (files / "questions" / "CLEVR_val_questions.json").write_text(json.dumps(content))
    bare = [
        {k: v for k, v in question.items() if k not in ("answer", "program")}
        for question in questions
    ]
    (files / "questions" / "CLEVR_test_questions.json").write_text(json.dumps({"questions": bare}))
    scenes = {"info": {}, "scenes": [{"image_index": 0, **RECORD}]}
    (files / "scenes" / "CLEVR_val_scenes.json").write_text(json.dumps(scenes))
    return root


def test_the_data_set_and_its_oracle(tmp_path: Path, roots: Any):
    root = write_root(tmp_path, ["2", "red"])
    roots.image(root / "CLEVR_v1.0" / "images" / "val" / "CLEVR_val_000000.png")
    dataset = ClevrDataset(root, test="test")
    split = dataset.split("val")
    assert split.question_ids.tolist() == [0, 1]
    assert split.answers == [["2"], ["red"]]
    assert split.answer_types == ["number", "other"]
    assert split.question_types == ["count", "query_attribute"]
    found = score_answers(split, ["2", "Red"])  # letter by letter
    assert (found["vqa/accuracy"], found["vqa/question_type/count"]) == (0.5, 1)
    assert split.layouts == {0: ["_Find", "_Count"], 1: ["_Find", "_Describe"]}
    assert split.require_images().path(0).name == "CLEVR_val_000000.png"
    assert dataset.lacks_annotations("test")
    assert not dataset.split("test").has_answers
    assert dataset.oracle("test") is None
    oracle = dataset.oracle("val")
    assert oracle is not None
    judged = oracle.judge(0, "What color is the tiny shiny ball?")
    assert (judged.understood, judged.premise, judged.answer) == (True, True, "blue")
    assert oracle.judge(0, "What color is the green block?").premise is False
    assert not oracle.judge(0, "Is the cube happy?").understood
    assert oracle.fact("What color is the block?") == oracle.fact("what color is the cube")
    assert oracle.fact("Is the cube happy?") is None
    known = oracle.judge_many(
        [0, 0], ["How many big balls are there?", "How many cubes are there?"]
    )
    assert [one.answer for one in known] == ["1", "1"]
    with pytest.raises(KeyError, match="does not know image 5"):
        oracle.judge(5, "How many cubes are there?")


def test_a_file_name_that_contradicts_the_image_is_reported(tmp_path: Path, roots: Any):
    root = write_root(tmp_path, ["2", "red"])
    file = root / "CLEVR_v1.0" / "questions" / "CLEVR_val_questions.json"
    text = file.read_text()
    file.write_text(text.replace("CLEVR_val_000000.png", "CLEVR_val_000001.png"))
    message = r"question 1: image_filename: is 'CLEVR_val_000001.png', but image_index is 0"
    with pytest.raises(DataError, match=message):
        ClevrDataset(root).split("val")
    file.write_text(text)
    roots.image(root / "CLEVR_v1.0" / "images" / "val" / "CLEVR_train_000000.png")
    message = r"image 0: CLEVR_val_000000\.png: is CLEVR_train_000000\.png in"
    with pytest.raises(DataError, match=message):
        ClevrDataset(root).split("val")


def test_a_program_that_contradicts_the_answer_is_reported(tmp_path: Path):
    dataset = ClevrDataset(write_root(tmp_path, [3, "red"]))
    message = (
        r"CLEVR_val_questions\.json: question 0: program: gives 2 on its scene, but the answer is 3"
    )
    with pytest.raises(DataError, match=message):
        dataset.oracle("val")
