"""JSON files that are damaged or hold other values: one sentence each, and in time."""

import json
from pathlib import Path

import pytest
from bad_files import JSON_FILES, refused

# Contents that are valid for some kinds of files.
FITTING = {
    "layouts": {"an empty object"},
    "scenes": {"an empty object"},
    "metrics": {"an empty object", "an object of numbers"},
    "judgements": {"an empty list"},
}

TEXTS = {
    "nothing": b"",
    "a space": b" ",
    "null": b"null",
    "true": b"true",
    "a number": b"7",
    "a text": b'"text"',
    "an empty object": b"{}",
    "an empty list": b"[]",
    "a list of null": b"[null]",
    "a list of numbers": b"[1, 2]",
    "a list of lists": b"[[]]",
    "an object of null": b'{"questions": null, "annotations": null, "1": null}',
    "an object of numbers": b'{"questions": 1, "annotations": 1, "1": 1, "a": 1, "b": 1, "c": 1}',
    "an object of objects": b'{"questions": {}, "annotations": {}, "1": {}, "a": {}, "b": {}}',
    "a list of objects": b'[{"a": 1}]',
    "nested lists": b"[" * 100_000 + b"]" * 100_000,
    "nested objects": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "open lists": b"[" * 100_000,
    "half a character": b'["\\ud800"]',
    "half a character as a key": b'{"\\udfff": 1}',
    "half a character in bytes": b'["\xed\xa0\x80"]',
    "an integer of 5000 digits": b"[" + b"9" * 5000 + b"]",
    "NaN": b"NaN",
    "Infinity": b"[Infinity]",
    "1e999": b"1e999",
    "Latin-1": '["\u00e9"]'.encode("latin-1"),
    "zeros": bytes(64),
    "other bytes": bytes(range(256)),
    "HTML": b"<html>404 Not Found</html>",
    "two values": b"{} {}",
    "single quotes": b"{'a': 1}",
    "a comma too many": b'{"a": 1,}',
}


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("kind", JSON_FILES)
def test_invalid_json_and_other_values_arerefused(kind: str, text: str, tmp_path: Path) -> None:
    read, file = JSON_FILES[kind][1], tmp_path / f"{kind}.json"
    file.write_bytes(TEXTS[text])
    if text in FITTING.get(kind, ()):
        read(file)
        return
    message = refused(read, file, named=kind if kind != "scenes" else "scenes_val.json")
    if text.startswith(("nested", "open lists")):
        assert "nested too deeply" in message or "invalid JSON" in message
    if text.startswith("half a character"):
        assert "half a character" in message or "not UTF-8" in message


@pytest.mark.parametrize("kind", JSON_FILES)
def test_truncated_json_isrefused(kind: str, tmp_path: Path) -> None:
    value, read = JSON_FILES[kind]
    file = tmp_path / f"{kind}.json"
    text = json.dumps(value)
    for kept in (1, len(text) // 2, len(text) - 1):
        for made in tmp_path.glob("scenes_val.json"):
            made.unlink()
        file.write_text(text[:kept])
        message = refused(read, file, named=kind)
        assert "invalid JSON" in message


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-32"])
@pytest.mark.parametrize("kind", JSON_FILES)
def test_json_in_other_encodings_gives_the_same_value(
    kind: str, encoding: str, tmp_path: Path
) -> None:
    value, read = JSON_FILES[kind]
    found = []
    for number, used in enumerate(("utf-8", encoding)):
        file = tmp_path / str(number) / f"{kind}.json"
        file.parent.mkdir()
        file.write_bytes(json.dumps(value).encode(used))
        found.append(read(file))
    assert found[0] == found[1]
