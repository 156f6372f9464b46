"""Scenes: a generated VQA data set with exact answers, which needs no download.

- A scene is a place with a time of day, a weather and two to six things, each with a shape, a
  colour, a size, a pattern and a position (`world`); `renderer` draws it at 128 x 128 pixels.
- The grammar has several phrasings for every meaning of a question (`grammar`, `phrasings`,
  `words`). The meaning is a functional program (`programs`).
- The oracle parses any question of the grammar and evaluates its program on a scene: the answer,
  a false premise, or not understood (`oracle`).
- The biases are those of VQA 1.0: more "yes" than "no", mostly yellow stars, "2" as the most
  frequent count, true premises, ten annotators who disagree (`questions`, `annotators`). Balanced
  scenes are pairs of images with different answers to one question, as in VQA 2.0.

`ScenesDataset` is the data set for data=scenes; `generation` writes it in VQA's official layout.

Example:
    >>> from ivqa.scenes import Scene, parse
    >>> from ivqa.scenes.programs import evaluate
    >>> from ivqa.scenes.world import Thing
    >>> star = Thing("star", "yellow", "large", "striped", x=0.1, y=0.2)
    >>> heart = Thing("heart", "red", "small", "plain", x=0.6, y=0.2)
    >>> scene = Scene("beach", "night", "rainy", (star, heart))
    >>> program = parse("Is the heart to the right of the star?")
    >>> program.kind, program.relation
    ('relate', 'left')
    >>> evaluate(program, scene).answer
    'yes'
    >>> evaluate(parse("What color is the circle?"), scene).premise
    False
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ivqa.data.oracles import Judgement as Judgement
    from ivqa.data.oracles import Oracle as Oracle
    from ivqa.scenes.dataset import ScenesDataset as ScenesDataset
    from ivqa.scenes.generation import generate_scenes as generate_scenes
    from ivqa.scenes.grammar import parse as parse
    from ivqa.scenes.oracle import SceneOracle as SceneOracle
    from ivqa.scenes.oracle import oracle_of as oracle_of
    from ivqa.scenes.world import Scene as Scene

_MODULE_OF = {
    "Judgement": "oracle",
    "Oracle": "oracle",
    "Scene": "world",
    "SceneOracle": "oracle",
    "ScenesDataset": "dataset",
    "generate_scenes": "generation",
    "oracle_of": "oracle",
    "parse": "grammar",
}
__all__ = list(_MODULE_OF)


def __getattr__(name: str) -> Any:
    # Imports a module on first use: the processes that draw scenes do not need torch, and its
    # import takes longer than their work.
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
