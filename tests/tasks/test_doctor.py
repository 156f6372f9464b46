"""`ivqa doctor` on sound and on broken installations."""

import importlib.metadata
import json
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest

from documented_commands import PROJECT
from ivqa import released
from ivqa.tasks import doctor
from ivqa.tasks.doctor import Finding, examine, main


def _named(findings: list[Finding], what: str) -> Finding:
    return next(finding for finding in findings if finding.what == what)


def test_this_installation_is_sound(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 0
    printed = capsys.readouterr().out
    assert "Everything that ivqa needs works." in printed
    found = list(examine())
    assert not [finding for finding in found if finding.broken]
    assert _named(found, "torch and torchvision").found.endswith("belong together")


def test_the_table_fits_80_columns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = Finding("extra 'photos'", "without " + "timm, " * 30, "pip install 'ivqa[photos]'")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(doctor, "examine", lambda root: [found, Finding("/folder" * 20, "9 GiB")])
    main(["doctor"])
    printed = capsys.readouterr().out
    assert max(map(len, printed.split("\n"))) <= 80
    assert "ivqa[photos]" in printed
    assert "9 GiB" in printed


def test_other_arguments_print_the_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == main(["doktor"]) == 2
    assert capsys.readouterr().out.count("usage: ivqa doctor [DATA_ROOT]") == 2


def _bound(package: str) -> str:
    dependencies = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"][
        "dependencies"
    ]
    return next(line for line in dependencies if line.startswith(f"{package}>="))


def test_absent_and_old_packages_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.metadata.version

    def version(name: str) -> str:
        if name in ("scipy", "openai"):
            raise importlib.metadata.PackageNotFoundError(name)
        return "0.1" if name == "pandas" else real(name)

    monkeypatch.setattr(doctor, "version", version)
    found = list(doctor.packages())
    assert _named(found, "scipy") == Finding(
        "scipy", "is not installed", f"pip install '{_bound('scipy')}'", broken=True
    )
    remedy = f"pip install '{_bound('pandas')}'"
    assert _named(found, "pandas") == Finding("pandas", "0.1", remedy, broken=True)
    extra = _named(found, "extra 'served'")
    assert (extra.found, extra.broken) == ("without openai", False)
    assert "pip install 'ivqa[served]'" in extra.remedy


def test_a_torchvision_of_another_build_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    real = doctor.import_module

    def import_module(name: str) -> object:
        if name == "torchvision.ops":
            raise RuntimeError("operator torchvision::nms does not exist\nmore")
        return real(name)

    monkeypatch.setattr(doctor, "import_module", import_module)
    (found,) = doctor.torch_pair()
    assert found.broken
    assert found.found.endswith(": operator torchvision::nms does not exist")


def test_low_resources_and_a_closed_store(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("IVQA_ARTIFACTS", str(tmp_path / "new" / "store"))
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda _: SimpleNamespace(free=1 << 30))
    store = _named(list(doctor.memory_and_disk()), "artifact store")
    assert "1 GiB free" in store.found
    assert (bool(store.remedy), store.broken) == (True, False)

    def refuse(**_: object) -> object:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(doctor.tempfile, "TemporaryFile", refuse)
    assert _named(list(doctor.memory_and_disk()), "artifact store").broken


def test_changed_weights_and_a_failing_check_are_findings(monkeypatch: pytest.MonkeyPatch) -> None:
    changed = SimpleNamespace(weights=lambda: (_ for _ in ()).throw(ValueError("was changed")))
    monkeypatch.setattr(released, "catalogue", lambda: {"cnn": changed})
    (found,) = doctor.weights()
    assert (found.found, found.broken) == ("was changed", True)
    monkeypatch.setattr(released, "catalogue", lambda: 1 / 0)
    assert _named(list(examine()), "weights").found == "ZeroDivisionError: division by zero"


def test_tracking(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_netrc_key", lambda: None)
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    monkeypatch.setenv("WANDB_MODE", "offline")
    assert next(doctor.tracking()).found == "WANDB_MODE=offline"
    monkeypatch.delenv("WANDB_MODE")
    assert "wandb login" in next(doctor.tracking()).remedy
    monkeypatch.setenv("WANDB_API_KEY", "secret-key")
    found = next(doctor.tracking())
    assert "online" in found.found
    assert "secret-key" not in found.found


def test_data_roots(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", str(tmp_path)]) == 1
    assert "1 broken" in capsys.readouterr().out
    question = {"question_id": 1, "image_id": 7, "question": "Is it red?"}
    (tmp_path / "questions_val.json").write_text(json.dumps({"questions": [question]}))
    (found,) = doctor.data(tmp_path)
    assert (found.what, found.found) == ("split val", "1 questions without answers, no images")
    (tmp_path / "questions_val.json").write_text("{")
    (found,) = doctor.data(tmp_path)
    assert found.broken
    assert "questions_val.json" in found.found
