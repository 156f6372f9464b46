"""Everyday things and what is often seen beside them, as POPE's adversarial objects."""

_GROUPS = (
    "person man woman child boy girl | hat shirt bag phone glasses umbrella watch backpack",
    "dog cat | leash collar ball couch bed bowl",
    "horse cow sheep | rider saddle fence barn field dog",
    "elephant giraffe zebra bear | tree river fence rock person",
    "bird | tree branch nest beak feather",
    "car truck bus van taxi | road driver traffic light stop sign wheel bicycle",
    "motorcycle bicycle scooter | helmet rider wheel car road",
    "train | track station platform bridge passenger",
    "airplane helicopter | cloud runway pilot airport bird",
    "boat ship | water sail person dock wave",
    "table desk | chair plate cup lamp book laptop",
    "chair couch bench bed | pillow blanket table lamp cushion rug",
    "laptop computer keyboard monitor television phone | mouse cable desk screen remote",
    "plate bowl cup glass bottle | fork knife spoon table napkin",
    "pizza sandwich cake salad burger bread | plate fork knife cheese glass table",
    "apple banana orange carrot broccoli | bowl plate basket table knife",
    "refrigerator oven stove microwave sink | cabinet pan pot kettle towel faucet",
    "toilet bathtub shower mirror | sink towel soap toothbrush curtain",
    "window door house building wall | curtain roof chimney clock flower balcony",
    "tree flower grass plant bush | leaf bird bench fence vase path",
    "road street sidewalk bridge | car pedestrian traffic light street sign bicycle",
    "beach ocean wave sea | surfboard boat umbrella towel shell person",
    "mountain hill snow | ski tree snowboard cloud cabin person",
    "surfboard skateboard snowboard ski | wave ramp helmet glove person",
    "ball bat racket frisbee glove | player net field cap dog",
    "book newspaper paper | shelf pen glasses lamp desk",
    "clock tower sign traffic light | building pole arrow street tree",
    "kite balloon flag | string child cloud tree",
    "bag suitcase backpack umbrella | person handle bench train wheel",
    "tie suit dress shirt jacket | belt button hat shoe pocket",
    "teddy bear doll toy | child bed box ribbon",
    "knife fork spoon scissors | plate cutting board napkin cup",
    "circle square triangle star heart diamond cross hexagon",
)
_PHRASES = ("traffic light", "stop sign", "street sign", "teddy bear", "cutting board")


def _table() -> dict[str, tuple[str, ...]]:
    table: dict[str, tuple[str, ...]] = {}
    for group in _GROUPS:
        things, _, others = group.partition(" | ")
        kin, beside = _nouns(things), _nouns(others)
        for thing in kin:
            # One thing of a kind is often taken for another: a truck for a bus.
            near = [other for other in (*beside, *kin) if other != thing]
            table[thing] = tuple(dict.fromkeys((*table.get(thing, ()), *near)))
    return table


def _nouns(text: str) -> list[str]:
    for phrase in _PHRASES:
        text = text.replace(phrase, phrase.replace(" ", "_"))
    return [word.replace("_", " ") for word in text.split()]


COMPANIONS = _table()
"""By thing: what is often seen with it, and what it is easily taken for."""

PEOPLE = frozenset(
    "person man woman child boy girl baby player rider driver pedestrian passenger pilot surfer "  # noqa: SIM905
    "skier skateboarder lady guy kid chef waiter policeman worker batter catcher".split()
)
ANIMALS = frozenset(
    "dog cat horse cow sheep elephant giraffe zebra bear bird duck goat pig monkey lion tiger "  # noqa: SIM905
    "rabbit fish puppy kitten".split()
)
