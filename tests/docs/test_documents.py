"""Documents that are generated are current, links lead somewhere, and what the README tells to type exists."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from source_tree import CHECKOUT, PACKAGES, modules, shown, texts, tree

DOCUMENTS = [path for path in texts() if path.suffix == ".md"]
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")


def headings(path: Path) -> set[str]:
    """The anchors of a document, as Markdown renderers make them."""
    lines = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL).splitlines()
    titles = [line.lstrip("#").strip().lower() for line in lines if line.startswith("#")]
    return {re.sub(r"[^\w\- ]", "", title).replace(" ", "-") for title in titles}


def test_generated_documents_are_current():
    command = [sys.executable, str(CHECKOUT / "docs/generate.py"), "--check"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_every_code_that_is_compared_with_is_raised_somewhere():
    """A comparison with a code that nobody raises is a branch that never runs."""
    listed = set(
        re.findall(
            r"^\| `([a-z_.]+)`", (CHECKOUT / "docs/errors.md").read_text(encoding="utf-8"), re.MULTILINE
        )
    )
    assert len(listed) > 40
    families = {code.partition(".")[0] for code in listed}
    unknown = []
    for path in modules(*PACKAGES):
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.Compare) and ast.unparse(node.left).endswith(".code"):
                named = [each.value for each in ast.walk(node) if isinstance(each, ast.Constant)]
                unknown += [
                    f"{shown(path, node.lineno)}: {code}"
                    for code in named
                    if isinstance(code, str) and code.partition(".")[0] in families and code not in listed
                ]
    assert not unknown, "\n".join(unknown)


@pytest.mark.parametrize("path", DOCUMENTS, ids=shown)
def test_links_lead_somewhere(path):
    dead = []
    text = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    for link in _LINK.findall(text):
        if re.match(r"[a-z]+:", link):
            continue
        file, _, anchor = link.partition("#")
        target = (path.parent / file).resolve() if file else path
        if not target.exists():
            dead.append(link)
        elif anchor and anchor not in headings(target):
            dead.append(f"{link}: no such heading")
    assert not dead, "\n".join(dead)


def test_every_decision_is_in_the_list():
    folder = CHECKOUT / "docs/decisions"
    listed = set(_LINK.findall((folder / "README.md").read_text(encoding="utf-8")))
    written = {path.name for path in folder.glob("*.md")} - {"README.md"}
    assert written == {link for link in listed if "/" not in link}


def commands_in(path: Path, program: str) -> set[str]:
    """The first words that follow a program in the shell blocks of a document (two where the second is a word too)."""
    blocks = re.findall(r"```sh\n(.*?)```", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    lines = [line.partition("#")[0] for block in blocks for line in block.splitlines()]
    return {match.group(1) for line in lines if (match := re.match(rf"\s*{program} ([a-z-]+)", line))}


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "docs/operating.md"])
def test_make_targets_exist(name):
    targets = set(
        re.findall(r"^([a-z-]+):.*## ", (CHECKOUT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    )
    assert commands_in(CHECKOUT / name, "make") <= targets


@pytest.mark.slow
@pytest.mark.parametrize("command", sorted(commands_in(CHECKOUT / "README.md", "duly")))
def test_commands_of_the_readme_exist(command, duly_home):
    entry = "import sys; from duly.cli.entry import main; sys.argv[0] = 'duly'; sys.exit(main())"
    call = [sys.executable, "-c", entry, command, "--help"]
    done = subprocess.run(call, check=False, cwd=duly_home, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert command in done.stdout
