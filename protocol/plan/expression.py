"""The expressions of a policy: the part of CEL that is read, judged before anything compiles it.

An expression says *true* or *false* of one call:

    arguments.amount > 1000 || arguments.country in ["IR", "KP"]

Names: ``arguments``, ``tool``, ``effect``, ``resource``. Every number is a double, those of the expression too, so that
``arguments.amount * 2 > 1000`` means what it says whether the amount came as 600 or as 600.5; inside of ``[...]`` (an
index, a list) they stay as written. There is no remainder, for a double has none. A loop (``all``, ``exists`` …) runs over
one list of the call; a loop inside a loop is refused, since its work grows as a power of what a call brings.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from ..wire.limits import EXPRESSION_CHARS_MAX, EXPRESSION_DEPTH_MAX

NAMES = ("arguments", "tool", "effect", "resource")
LOOPS = frozenset(("all", "exists", "exists_one", "map", "filter"))
FUNCTIONS = frozenset(
    "has size contains startsWith endsWith matches double string bool timestamp duration getFullYear getMonth getDate "
    "getDayOfMonth getDayOfWeek getDayOfYear getHours getMinutes getSeconds getMilliseconds".split()
)
EXACT_MAX = 1 << 53  # whole numbers up to here are doubles without loss
_WORDS = frozenset(("true", "false", "null", "in"))
_PAIRS = {")": "(", "]": "[", "}": "{"}
# Texts have no prefix: in a raw text a backslash ends differently, and two readers must not disagree where it ends.
_TOKEN = re.compile(
    r"""(?P<blank>[ \t\r\n]+|//[^\n]*)
      | (?P<text>\"\"\"(?:[^\\]|\\.)*?\"\"\"|\'\'\'(?:[^\\]|\\.)*?\'\'\'|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
      | (?P<number>0[xX][0-9a-fA-F]+|(?:[0-9]*\.[0-9]+|[0-9]+)(?:[eE][+-]?[0-9]+)?)
      | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
      | (?P<sign>&&|\|\||[<>=!]=|[-+*/<>!?:.,()\[\]{}])
    """,
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    at: int  # the place of its first character, counted from 1


def faults_of(expression: str) -> list[str]:
    """Everything that keeps an expression from being compiled, one sentence each; a syntax error is the compiler's."""
    if not expression.strip():
        return ["The expression is empty."]
    if len(expression) > EXPRESSION_CHARS_MAX:
        return [f"An expression has at most {EXPRESSION_CHARS_MAX} characters, this one {len(expression)}."]
    try:
        tokens = list(_tokens(expression))
    except _Unreadable as problem:
        return [problem.sentence]
    return [*_brackets(tokens), *_numbers(tokens), *_names(tokens)]


def as_doubles(expression: str) -> str:
    """The expression with its whole numbers outside of square brackets as doubles. It has no faults."""
    parts: list[str] = []
    end, depth = 0, 0
    for token in _tokens(expression):
        depth += {"[": 1, "]": -1}.get(token.text, 0) if token.kind == "sign" else 0
        if token.kind == "number" and not depth and _is_whole(token.text):
            parts += [expression[end : token.at - 1], f"{int(token.text, 0)}.0"]
            end = token.at - 1 + len(token.text)
    return "".join([*parts, expression[end:]])


class _Unreadable(Exception):
    def __init__(self, sentence: str) -> None:
        super().__init__(sentence)
        self.sentence = sentence


def _tokens(expression: str) -> Iterator[_Token]:
    at = 0
    while at < len(expression):
        match = _TOKEN.match(expression, at)
        if match is None:
            raise _Unreadable(_unreadable(expression[at], at + 1))
        kind = str(match.lastgroup)
        if kind == "number" and match.end() < len(expression) and expression[match.end()].isalnum():
            raise _Unreadable(f"The number at character {at + 1} does not end; write a plain number.")
        if kind != "blank":
            yield _Token(kind, match.group(), at + 1)
        at = match.end()


def _unreadable(character: str, at: int) -> str:
    if character == "%":
        return f"There is no remainder (character {at}): every number is a double."
    if character in "\"'":
        return f"The text that begins at character {at} does not end."
    shown = character if character.isascii() and character.isprintable() else f"U+{ord(character):04X}"
    return f"{shown} at character {at} has no place in an expression."


def _brackets(tokens: list[_Token]) -> list[str]:
    open_: list[str] = []
    for token in tokens:
        if token.kind != "sign":
            continue
        if token.text in _PAIRS.values():
            open_.append(token.text)
            if len(open_) > EXPRESSION_DEPTH_MAX:
                return [f"Brackets are nested more than {EXPRESSION_DEPTH_MAX} deep."]
        elif token.text in _PAIRS and (not open_ or open_.pop() != _PAIRS[token.text]):
            return [f"The {token.text} at character {token.at} closes nothing."]
    return [f"A {open_[-1]} is never closed."] if open_ else []


def _numbers(tokens: list[_Token]) -> list[str]:
    found = []
    for token in tokens:
        if token.kind == "number" and _is_whole(token.text):
            if token.text.isdigit() and token.text != "0" and token.text[0] == "0":
                found.append(f"The number {token.text[:40]} at character {token.at} begins with 0.")
            elif len(token.text) > 20 or int(token.text, 0) > EXACT_MAX:
                found.append(
                    f"The number {token.text[:40]} at character {token.at} is too large to be exact."
                )
    return found


def _is_whole(text: str) -> bool:
    return text[:2].lower() == "0x" or text.isdigit()


def _names(tokens: list[_Token]) -> list[str]:
    """Names that stand for nothing, functions that are not known, loops inside of loops."""
    found: list[str] = []
    bound = _bound(tokens)
    loops: list[int] = []  # bracket depths at which a loop's arguments began
    depth = 0
    for index, token in enumerate(tokens):
        before = tokens[index - 1].text if index else ""
        after = tokens[index + 1].text if index + 1 < len(tokens) else ""
        if token.kind == "sign":
            depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(token.text, 0)
            while loops and depth < loops[-1]:
                loops.pop()
        elif token.kind != "name" or token.text in _WORDS:
            continue
        elif after == "(":
            if token.text in LOOPS and before == ".":
                if loops:
                    found.append(
                        f"The loop {token.text} at character {token.at} stands inside of another loop."
                    )
                loops.append(depth + 1)
            elif token.text not in FUNCTIONS:
                found.append(f"There is no function {token.text} (character {token.at}).")
        elif before != "." and token.text not in NAMES and token.text not in bound:
            known = ", ".join(NAMES)
            found.append(f"The name {token.text} at character {token.at} stands for nothing; known: {known}.")
    return found


def _bound(tokens: list[_Token]) -> set[str]:
    """The names that loops give to what they run over: the first word in their brackets."""
    return {
        third.text
        for first, second, third in zip(tokens, tokens[1:], tokens[2:], strict=False)
        if first.text in LOOPS and second.text == "(" and third.kind == "name"
    }
