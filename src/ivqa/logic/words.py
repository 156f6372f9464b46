"""Tables of English words: what a word names, what it excludes, and what it presupposes.

Tables instead of WordNet: the figures of a run do not depend on whether a corpus is installed.
"""

from functools import cache


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_VALUES = {
    "color": "red blue green yellow black white orange purple brown gray pink silver gold tan "
    "beige maroon teal blonde turquoise",
    "size": "big small",
    "pattern": "striped dotted checkered plain plaid floral",
    "shape": "circle cross diamond heart hexagon square star triangle",
}
ATTRIBUTE_OF = {value: name for name, values in _VALUES.items() for value in values.split()}
"""The attribute that a word is a value of, such as "color" for "red"."""
VALUES_OF = {name: tuple(values.split()) for name, values in _VALUES.items()}
"""The values of an attribute, the common ones first."""
SHAPES = frozenset(VALUES_OF["shape"])
MATERIALS = _words(
    "ceramic clay cloth concrete cotton fabric granite leather marble metal plastic porcelain "
    "rubber steel wood wool"
)
MATERIALS_AND_THINGS = _words("brick glass paper stone tile")

# One spelling or word for those that mean the same about a picture.
SAME_WORD = {
    "colour": "color", "colours": "colors", "colored": "color", "coloured": "color",
    "grey": "gray", "large": "big", "little": "small", "violet": "purple", "blond": "blonde",
    "checked": "checkered", "which": "what", "anyone": "any person", "anybody": "any person",
    "someone": "any person", "somebody": "any person", "photograph": "picture", "pic": "picture",
    "photo": "picture", "image": "picture", "scene": "picture", "pics": "picture",
    "photos": "picture", "airplane": "plane", "airplanes": "planes", "tv": "television",
    "tvs": "televisions", "bike": "bicycle", "bikes": "bicycles", "fridge": "refrigerator",
    "guy": "man", "guys": "men", "lady": "woman", "ladies": "women", "kid": "child",
    "kids": "children", "anything": "any thing", "something": "any thing",
}  # fmt: skip
SAME_MODIFIER = {
    "with stripe": "striped", "with line": "striped", "with dot": "dotted",
    "with check": "checkered",
}  # fmt: skip
SAME_PREPOSITION = {"over": "above", "under": "below", "underneath": "below", "beneath": "below"}

# A thing that an adjective of this table describes is a thing of that name without it, in every
# picture. Others, such as "toy", "stuffed", "fake" or the "hot" of "hot dog", are not.
PLAIN_ADJECTIVES = frozenset(ATTRIBUTE_OF) - SHAPES | _words(
    "young old new tall short long round empty full open closed wooden metal glass brick stone "
    "leather clean dirty wet dry adult male female elderly bright dark parked tiny huge visible "
    "black-and-white multicolored colorful"
)
# Where or how a thing is only depicted: "the dog on the poster" need not be a dog.
DEPICTING = _words(
    "picture painting poster sign shirt screen television book magazine statue logo cake mural "
    "billboard mug tattoo drawing cartoon card flag newspaper board reflection mirror"
)
UNREAL = _words("made shaped like drawn painted printed carved missing gone stuffed imagined not")
# Words whose phrase changes its meaning with every other word of it: "leftmost red star".
ORDERING = _words(
    "first second third fourth last next previous only other another same different main most "
    "least leftmost rightmost highest lowest topmost bottommost closest nearest farthest middle "
    "front back left right top bottom upper lower inner outer"
)
NUMBERS = {
    "zero": 0, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7,
    "eight": 8, "nine": 9, "ten": 10, "eleven": 11, "twelve": 12,
}  # fmt: skip
# Answers that deny what was asked; nothing is presupposed by a question that is answered so.
DENIALS = _words(
    "none nothing nobody nowhere neither unknown unsure unclear n/a na zero nil 0 absent idk "
    "unanswerable noone unsuitable"
)

HYPERNYM = {
    part: whole
    for whole, parts in {
        "person": "man woman boy girl child baby player skier surfer skateboarder snowboarder "
        "rider lady batter pitcher catcher umpire worker officer driver toddler bride groom chef",
        "animal": "dog cat horse cow sheep bird elephant giraffe zebra bear lion goat duck pig "
        "monkey puppy kitten deer",
        "vehicle": "car bus truck train motorcycle van bicycle boat plane taxi tractor",
        "fruit": "apple banana strawberry pear lemon",
        "dog": "puppy",
        "cat": "kitten",
    }.items()
    for part in parts.split()
}
"""The next more general noun. It can be wrong for a true answer: a stuffed dog is no animal."""

# Nouns that no picture shows as a thing of its own, or that name a place, a time, a part or a view:
# "the" before them presupposes nothing that a model should be asked for.
UNASKED = _words(
    "picture background foreground air ground sky sun left right middle center centre front back "
    "side top bottom corner edge end rest part day daytime night nighttime morning evening "
    "afternoon noon sunset sunrise dusk dawn weather time season country city town state world "
    "year month date way direction color shape size pattern name number type kind sort purpose "
    "brand breed style make model logo word letter title company reason majority amount height "
    "weight age gender sex race ethnicity nationality temperature game sport event occasion "
    "activity action place area location scenery setting room indoors outdoors view distance "
    "photographer camera viewer mood emotion expression feeling position use meal theme method "
    "material language one ones thing object item same other others it everything anything "
    "something nothing case best most all both outside inside outdoors wild shade sunlight dark "
    "head face hand arm leg foot body eye ear nose mouth hair finger neck chest knee skin "
    "shoulder tail lap wrist waist piece bunch group pair couple type lot set kind series row "
    "stack pile hour minute era century decade hobby job profession occupation order condition "
    "quality value price cost speed taste smell sound mile inch flavor stage process step level "
    "point line story surface space relationship difference similarity person's thought goal task "
    "identity subject trip vacation holiday party horizon north south east west middle wind past "
    "future present idea food dish attire outfit clothing apparel act environment climate "
    "atmosphere midst internet web ratio number total percentage proportion"
)
# "How many hours": numbers that do not count things in the picture.
MEASURES = UNASKED - _words(
    "thing object item light head face hand arm leg foot eye ear tail mountain wave room road "
    "street letter word person's dish logo number hair finger camera line game shadow reflection "
    "pair group stack pile row bunch set piece step animal"
) | _words(
    "color kind type sort hour minute second week day month year inch foot meter mile dollar cent "
    "degree percent pound ounce calorie time person-hour gallon gear way story floor level "
    "language species variety serving ingredient"
)
MASS = _words(
    "water snow grass food furniture clothing hair sand luggage traffic milk juice coffee tea "
    "wine beer bread rice meat cheese pasta broccoli fruit salad lettuce ketchup mustard sauce "
    "butter cream sugar salt pepper ice fire smoke dirt mud gravel graffiti writing text jewelry "
    "wood metal paper soup corn bacon cake pizza chocolate frosting icing silverware moss fog "
    "rain equipment lighting electricity wind ocean power trash garbage toilet-paper seaweed "
    "shade sunlight sunshine vegetation greenery soap chicken fur straw hay flooring fabric "
    "carpet lace music alcohol makeup"
)

# Values of the whole scene; those of one attribute exclude each other, the first two for certain.
SCENE_VALUES = {
    "time": ("day", "night", "sunset"),
    "weather": ("clear", "rainy", "snowy", "cloudy", "foggy", "windy"),
    "setting": ("indoors", "outdoors"),
    "place": (
        "beach", "city", "desert", "field", "forest", "mountains", "kitchen", "bathroom",
        "bedroom", "office",
    ),
}  # fmt: skip
SCENE_PHRASE = {
    "day": "during the day", "night": "at night", "sunset": "at sunset", "indoors": "indoors",
    "outdoors": "outdoors", "beach": "at the beach", "mountains": "in the mountains",
}  # fmt: skip
SCENE_WORD = {
    "daytime": "day", "nighttime": "night", "night time": "night", "day time": "day",
    "overcast": "cloudy", "inside": "indoors", "outside": "outdoors", "indoor": "indoors",
    "outdoor": "outdoors", "clouds": "cloudy",
}  # fmt: skip
"""Other words for a value of the scene."""
NARROWER_SCENE_WORD = {
    "noon": "day", "midday": "day", "raining": "rainy", "rain": "rainy",
    "snowing": "snowy",
}  # fmt: skip
"""Words that say more than the value: it can be day and not noon, snowy and not snowing."""
NEAR_SCENE_WORD = {
    "dusk": "sunset", "sunrise": "sunset", "mountain": "mountains", "snow": "snowy",
    "sunny": "clear",
}  # fmt: skip
"""Words that usually go with a value."""
SCENE_ATTRIBUTE = {value: name for name, values in SCENE_VALUES.items() for value in values}

INVERSE = {
    "left of": "right of", "right of": "left of", "above": "below", "below": "above",
    "behind": "in front of", "in front of": "behind",
}  # fmt: skip
"""Spatial relations with the one that holds the other way round."""
# Prepositions that need the thing after them even where the answer is "no". "In the water" does
# not: people ask so in order to learn whether there is any.
ANCHORING = (*INVERSE, "under", "over", "next to", "beside", "between", "near", "on top of",
             "underneath", "beneath", "around")  # fmt: skip
PREPOSITIONS = (
    *ANCHORING, "inside of", "out of", "close to", "on", "in", "at", "with", "inside", "outside",
    "by", "against", "along", "across", "from", "of",
)  # fmt: skip
ANTONYM = {
    one: other
    for pair in (
        "open closed", "on off", "empty full", "male female", "wet dry", "clean dirty",
        "young old", "big small", "indoors outdoors", "asleep awake", "hot cold",
        "standing sitting", "moving parked", "light dark", "tall short", "day night",
    )
    for one, other in (pair.split(), pair.split()[::-1])
}  # fmt: skip

_IRREGULAR = {
    "people": "person", "men": "man", "women": "woman", "children": "child", "feet": "foot",
    "teeth": "tooth", "mice": "mouse", "geese": "goose", "knives": "knife", "leaves": "leaf",
    "shelves": "shelf", "loaves": "loaf", "wolves": "wolf", "halves": "half", "wives": "wife",
    "ties": "tie", "cookies": "cookie", "movies": "movie", "pies": "pie", "zombies": "zombie",
    "potatoes": "potato", "tomatoes": "tomato", "buses": "bus", "busses": "bus", "shoes": "shoe",
    "lenses": "lens", "hooves": "hoof", "calves": "calf", "oxen": "ox", "scarves": "scarf",
    "women's": "woman's", "selfies": "selfie", "brownies": "brownie", "horses": "horse",
    "toes": "toe", "heroes": "hero", "snowmen": "snowman", "firemen": "fireman",
    "policemen": "policeman", "axes": "axe", "skies": "sky", "canvases": "canvas",
}  # fmt: skip
_PLURAL = {one: many for many, one in _IRREGULAR.items() if many != "busses"}
# Plural and singular are one form, or the noun has no singular.
UNCHANGED = _words(
    "sheep fish deer skis pants jeans shorts glasses sunglasses scissors goggles clothes aircraft "
    "cattle police tennis grass glass bus dress cross compass canvas lens circus octopus cactus "
    "headphones tongs pajamas tights leggings overalls bangs binoculars series species swiss "
    "hummus asparagus christmas mattress class chess boss moss bass gas campus surplus pliers"
)
ALWAYS_PLURAL = _words(
    "pants jeans shorts glasses sunglasses scissors goggles clothes cattle police headphones "
    "tongs pajamas tights leggings overalls bangs binoculars skis pliers"
)


@cache
def singular(noun: str) -> str:
    """The singular of a noun, or the noun itself.

    Example:
        >>> singular("benches"), singular("people"), singular("glass")
        ('bench', 'person', 'glass')
    """
    if noun in _IRREGULAR:
        return _IRREGULAR[noun]
    if noun in UNCHANGED or not noun.endswith("s") or noun.endswith(("ss", "us", "is")):
        return noun
    if noun.endswith("ies") and len(noun) > 4:
        return noun[:-3] + "y"
    if noun.endswith(("ches", "shes", "xes", "sses", "zzes")):
        return noun[:-2]
    return noun[:-1]


@cache
def plural(noun: str) -> str:
    """The plural of a singular noun.

    Example:
        >>> plural("cross"), plural("person"), plural("sheep"), plural("berry")
        ('crosses', 'people', 'sheep', 'berries')
    """
    if noun in _PLURAL:
        return _PLURAL[noun]
    if noun in ALWAYS_PLURAL or noun in ("sheep", "fish", "deer", "aircraft"):
        return noun
    if noun.endswith("y") and noun[-2:-1] not in tuple("aeiou"):
        return noun[:-1] + "ies"
    return noun + ("es" if noun.endswith(("s", "x", "ch", "sh", "z")) else "s")
