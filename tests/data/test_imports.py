"""The exports of the package, and what importing it loads."""

import subprocess
import sys

import pytest

import ivqa.data


def test_every_export_can_be_imported():
    for name in ivqa.data.__all__:
        assert getattr(ivqa.data, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'VQADatamodule'"):
        _ = ivqa.data.VQADatamodule


def test_the_download_command_starts_without_torch():
    code = "import sys, ivqa.data.download.download; print('torch' in sys.modules)"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "False"
