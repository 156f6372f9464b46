"""An independent implementation of the official VQA evaluation in plain Python.

It works character by character and one annotator at a time, in both revisions of vqaEval.py: 2015,
and 2018 ("Fixed processing answers bug"). It knows the contractions of CONTRACTIONS only, so test
cases must be built from these.
"""

DIGIT_OF = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
# Words without their apostrophe and what the evaluation replaces them by; the last is its bug.
CONTRACTIONS = {
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
    """Removes punctuation like `processPunctuation`.

    A mark next to a space is removed; every other mark becomes a space. If the text has a comma
    between digits, all marks are removed. Both rules look at the original text. Then at most 32
    full stops are removed, except those before a digit.
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
        words.append(CONTRACTIONS.get(word, word))
    return " ".join(words)


def official_score(prediction: str, given: list[str], revision: int) -> float:
    """The accuracy in [0, 1] of a prediction, with the answers `given` by n annotators.

    For ten annotators it is the mean over the ten ways to leave one of them out. For other numbers
    it is min(matches / min(3, n), 1), which is the rule of this project.
    """
    prediction = without_outer_space(prediction)
    if revision == 2018:
        given = [without_outer_space(text) for text in given]
    differ = len(given) == 1 or any(text != given[0] for text in given)
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
