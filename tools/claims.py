"""Numbers in texts that come from measurements: `python -m tools.claims` writes them anew.

Where the page shows a number, a text of conf/results.yaml and a sentence in tools/claims.yaml hold
{[EXPERIMENT|SETTING|METRIC]:FORMAT}, the mean over the seeds in docs/results.json. Braces may hold
a calculation, such as {1 - [repair|mlb|repaired/wrong_rate] / [repair|mlb|before/wrong_rate]:.0%}.
The format `share` writes "a third" for .32.
In tools/claims.yaml, METRIC may be a list: "a; b" stands for cells of a table, "a, b" for numbers
with commas. A line with * for SETTING stands for one line for each setting that has the metrics.

The experiment `gallery` is in docs/gallery.json, which tools/gallery.py writes; those that were
measured by other commands are in docs/measured.yaml. README.md and the guides hold the finished
sentences; tools/claims.yaml lists those with numbers, and phrases whose numbers are no results.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ivqa.errors import UserError
from ivqa.store.files import read_json, read_yaml, write_text
from tools.experiments import Project, Record

Records = Mapping[str, Record]

_PLACE = re.compile(r"\{([^{}]*\[[^{}]*\|[^{}]*\][^{}:]*):([^{}]*)\}")
_MEASURED = re.compile(r"\[([^\[\]|]+)\|([^\[\]|]+)\|([^\[\]|]+)\]")
_LIST = re.compile(r"\{(\[[^\[\]]+\|)([^\[\]|]+[;,][^\[\]|]+)\]:([^{}]*)\}")
_SHARES = {
    **{"a tenth": 1 / 10, "a fifth": 1 / 5, "a quarter": 1 / 4, "a third": 1 / 3, "half": 1 / 2},
    **{"two thirds": 2 / 3, "three quarters": 3 / 4},
}
_NEAR = 0.04  # a share farther from all of these is a number
_NUMBER = rf"([-−]?[\d.,]*\d|{'|'.join(_SHARES)})"


def filled(text: str, records: Records) -> str:
    """The text with the numbers of the records.

    Args:
        text: A text with calculations in braces.
        records: What was measured, by experiment.

    Raises:
        UserError: No record has the experiment, the setting or the metric.

    Example:
        >>> record = Record("abc1234", "", 0, {"mlb": [{"acc": 0.8}, {"acc": 0.9}]})
        >>> filled("MLB has {[models|mlb|acc]:.1%} percent.", {"models": record})
        'MLB has 85.0 percent.'
        >>> filled("{1 - [models|mlb|acc]:.0%} wrong", {"models": record})
        '15 wrong'
    """
    return _PLACE.sub(lambda found: _shown(found, records), text)


def corrected(page: str, sentences: Sequence[str], records: Records, name: str) -> str:
    """The page with today's numbers in its sentences.

    Args:
        page: Its text.
        sentences: The sentences with calculations in braces; line breaks do not count.
        records: What was measured, by experiment.
        name: The file name of the page, for messages.

    Raises:
        UserError: A sentence is not on the page, or several times.

    Example:
        >>> record = Record("abc1234", "", 0, {"mlb": [{"acc": 0.8}]})
        >>> corrected("It has\\n7 percent.", ["has {[m|mlb|acc]:.0%} percent"], {"m": record}, "")
        'It has\\n80 percent.'
    """
    for sentence in sentences:
        text = _expanded(sentence, records)
        places = list(_PLACE.finditer(text))
        found = list(re.finditer(_pattern(text), page))
        if len(found) != 1:
            raise UserError(
                f"{name}: the sentence '{sentence}' of tools/claims.yaml is there "
                f"{len(found)} times; correct the sentence in one of the two files"
            )
        for number, place in reversed(list(enumerate(places, start=1))):
            start, end = found[0].span(number)
            page = page[:start] + _shown(place, records) + page[end:]
    return page


def without(page: str, sentences: Sequence[str], records: Records) -> str:
    """What is left of a page without the sentences that `corrected` checks."""
    for sentence in sentences:
        page = re.sub(_pattern(_expanded(sentence, records)), "", page)
    return page


def read_claims(root: Path) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """The sentences of each page, and by reason the phrases of all pages that are no results."""
    claims: dict[str, Any] = read_yaml(root / "tools" / "claims.yaml", dict)
    no_results = claims.pop("not_results")
    return claims, no_results


def all_records(root: Path) -> dict[str, Record]:
    """The records of docs/results.json, and of docs/gallery.json and docs/measured.yaml, if any."""
    gallery, by_hand = root / "docs" / "gallery.json", root / "docs" / "measured.yaml"
    others = read_json(gallery, dict) if gallery.is_file() else {}
    if by_hand.is_file():
        others |= read_yaml(by_hand, dict)
    for one in others.values():
        one.pop("command", None)
    return {
        **Project(root).records(),
        **{name: Record(**values) for name, values in others.items()},
    }


def corrected_pages(root: Path) -> dict[Path, str]:
    """The texts of the pages that tools/claims.yaml names, with today's numbers."""
    records = all_records(root)
    return {
        root / name: corrected((root / name).read_text(), sentences, records, name)
        for name, sentences in read_claims(root)[0].items()
    }


def _expanded(text: str, records: Records) -> str:
    """The text with a placeholder for each number of its lists and of its lines with *."""
    lines: list[str] = []
    for line in _LIST.sub(_listed, text).split("\n"):
        repeated = [one for one in _MEASURED.findall(line) if one[1] == "*"]
        if not repeated:
            lines.append(line)
            continue
        metrics = {metric for _, _, metric in repeated}
        for setting, seeds in _settings(repeated[0][0], records).items():
            if metrics <= seeds[0].keys():
                lines.append(line.replace("|*|", f"|{setting}|").replace("| * |", f"| {setting} |"))
    return "\n".join(lines)


def _listed(found: re.Match[str]) -> str:
    start, metrics, style = found.groups()
    places = re.sub(r"[^;,\s]+", lambda one: f"{{{start}{one[0]}]:{style}}}", metrics)
    return places.replace(";", " |")


def _pattern(text: str) -> str:
    parts = _PLACE.split(text)[:: _PLACE.groups + 1]
    return _NUMBER.join(re.sub(r"(\\?\s)+", r"\\s+", re.escape(part)) for part in parts)


def _shown(place: re.Match[str], records: Records) -> str:
    calculation, style = place.groups()
    text = _MEASURED.sub(lambda one: repr(_mean(*one.groups(), records=records)), calculation)
    # The files are this project's own.
    value = eval(text, {"__builtins__": {"min": min, "max": max}})
    return _in_words(value) if style == "share" else format(value, style).removesuffix("%")


def _in_words(share: float) -> str:
    nearest = min(_SHARES, key=lambda name: abs(_SHARES[name] - share))
    if abs(_SHARES[nearest] - share) > _NEAR:
        raise UserError(f"no simple fraction is near {share:.3f}; write it as a number")
    return nearest


def _mean(experiment: str, setting: str, metric: str, *, records: Records) -> float:
    settings = _settings(experiment, records)
    values = [seed[metric] for seed in settings.get(setting, ()) if metric in seed]
    if not values:
        raise UserError(
            f"a text names [{experiment}|{setting}|{metric}], which was not measured; settings: "
            f"{', '.join(settings)}; see `also` in conf/results.yaml for metrics of no table"
        )
    return float(sum(values) / len(values))


def _settings(experiment: str, records: Records) -> Mapping[str, Sequence[Mapping[str, float]]]:
    if experiment not in records:
        raise UserError(f"a text names [{experiment}|...], which docs/results.json does not have")
    return records[experiment].settings


def main() -> None:
    """Writes the numbers of today into README.md and the guides."""
    root = Path(__file__).parents[1]
    for page, text in corrected_pages(root).items():
        if text != page.read_text():
            write_text(page, text)
            print(f"{page.relative_to(root)}: other numbers")


if __name__ == "__main__":
    main()
