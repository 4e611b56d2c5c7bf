"""The fixture `keel_check` of pytest:

def test_budget(keel_check):
    keel_check("./game", "--demo", budget="budget.toml")

def test_zone(keel_check):
    keel_check("./synth", options=["--zone", "symbol=audio_callback"])
"""

import shutil
import subprocess

import pytest


@pytest.fixture
def keel_check():
    """Checks a program. Fails if a limit is broken or something cannot be checked."""
    keel = shutil.which("keel")
    if keel is None:
        pytest.skip("keel is not installed")

    def check(*command, budget=None, options=()):
        chosen = ["--budget", str(budget)] if budget is not None else []
        line = [keel, "check", *chosen, *options, "--", *map(str, command)]
        done = subprocess.run(line, capture_output=True, text=True)
        if done.returncode != 0:
            text = f"keel check: exit code {done.returncode}\n{done.stdout}{done.stderr}"
            pytest.fail(text, pytrace=False)

    return check
