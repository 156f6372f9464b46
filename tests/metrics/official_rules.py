"""The official VQA evaluation told again in plain Python, apart from the package's code.

Character by character and one annotator at a time. It knows the contractions of WORDS_LOST only,
so cases are to be built from those. Both revisions of vqaEval.py: 2015, and 2018 ("Fixed
processing answers bug").
"""

DIGIT_OF = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
# Words that lost their apostrophe, and what the evaluation makes of them; the last is its mistake.
WORDS_LOST = {
    "dont": "don't",
    "isnt": "isn't",
    "whats": "what's",
    "its": "its",
    "oclock": "o'clock",
    "yall": "y'all",
    "couldnt've": "couldn't've",
    "couldn'tve": "couldn't've",
    "Im": "im",
    "somebody'd": "somebodyd",
}
MARKS = list(';/[]"{}()=+\\_-><@`,?!')
KEPT = list("':.&%$#")


def without_outer_space(text: str) -> str:
    text = "".join(" " if letter in "\n\t" else letter for letter in text)
    while text and text[0].isspace():
        text = text[1:]
    while text and text[-1].isspace():
        text = text[:-1]
    return text


def without_marks(text: str) -> str:
    """A mark next to a space goes, and so do all where a comma stands between digits; every other
    mark becomes a space. What counts is the text as it came. Then full stops go, 32 at most,
    except those before a digit.
    """
    grouped = any(
        before.isdigit() and comma == "," and after.isdigit()
        for before, comma, after in zip(text, text[1:], text[2:], strict=False)
    )
    loose = {mark for mark in MARKS if mark + " " in text or " " + mark in text}
    kept = []
    for letter in text:
        if letter not in MARKS:
            kept.append(letter)
        elif not grouped and letter not in loose:
            kept.append(" ")
    left, out = 32, ""
    for position, letter in enumerate(kept):
        follows = kept[position + 1] if position + 1 < len(kept) else ""
        if letter == "." and not follows.isdigit() and left:
            left -= 1
        else:
            out += letter
    return out


def in_plain_words(text: str) -> str:
    words = []
    for word in text.lower().split():
        if word in ("a", "an", "the"):
            continue
        if word == "none":
            word = "0"
        elif word in DIGIT_OF:
            word = str(DIGIT_OF.index(word))
        words.append(WORDS_LOST.get(word, word))
    return " ".join(words)


def official_score(prediction: str, given: list[str], revision: int) -> float:
    """The accuracy in [0, 1] of a prediction by the rule of the n annotators' answers `given`.

    Ten annotators: the mean over the ten ways to leave one of them out. Otherwise the number that
    agree over the smaller of 3 and n, at most 1, which is this project's rule.
    """
    prediction = without_outer_space(prediction)
    if revision == 2018:
        given = [without_outer_space(text) for text in given]
    differ = any(text != given[0] for text in given)
    if revision == 2015:
        prediction = in_plain_words(without_marks(prediction))
        if differ:
            given = [without_marks(text) for text in given]
    elif differ:
        prediction = in_plain_words(without_marks(prediction))
        given = [in_plain_words(without_marks(text)) for text in given]
    if len(given) != 10:
        agree = sum(text == prediction for text in given)
        return min(agree / min(3, len(given)), 1.0)
    total = 0.0
    for left_out in range(10):
        agree = sum(text == prediction for at, text in enumerate(given) if at != left_out)
        total += min(agree / 3, 1.0)
    return total / 10
