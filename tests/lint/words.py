#!/usr/bin/env python3
"""Checks files against banned.txt, and pure rooms for floating point in formats.

Comments and texts are blanked out first, so that a word in a sentence is no call. Prints
`file:line: what` and ends with 1 when there is one.
"""
import re
import sys

TOKENS = re.compile(
    r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.DOTALL)
FLOAT_FORMAT = re.compile(r'"[^"\n]*%[-+ #0-9.*]*l*[aefgAEFG][^"\n]*"')
PURE = ("controller/core/", "agent/core/")


def read_rules(path):
    """Rooms that may call each name, and the words with the rooms in which they are banned."""
    calls, words = {}, []
    with open(path, encoding="utf-8") as file:
        for line in file:
            fields = line.split("#", 1)[0].split()
            if not fields:
                continue
            name, rooms = fields
            if rooms.startswith("only:"):
                words.append((name, re.compile(rf"\b{name}\b"), rooms[5:].split(",")))
            else:
                calls[name] = [] if rooms == "-" else rooms.split(",")
    return calls, words


def is_in(path, rooms):
    return any(path == room or path.startswith(room + "/") for room in rooms)


def blanked(text):
    """The same text with comments and literals replaced by spaces; lines stay where they are."""
    return TOKENS.sub(lambda match: re.sub(r"[^\n]", " ", match.group(0)), text)


def faults_of(path, text, calls, pattern, words):
    code = blanked(text)
    for match in pattern.finditer(code):
        if not is_in(path, calls[match.group(1)]):
            yield match.start(), f"{match.group(1)}() is banned here"
    for name, word, rooms in words:
        if is_in(path, rooms):
            for match in word.finditer(code):
                yield match.start(), f"'{name}' is banned here"
    if path.startswith(PURE):
        for match in FLOAT_FORMAT.finditer(text):
            yield match.start(), "a floating point format in a pure room"


def main():
    calls, words = read_rules(sys.argv[1])
    # A call: not a member (x.free, x->free), not the end of a longer name.
    pattern = re.compile(r"(?<![\w.])(?<!->)(" + "|".join(calls) + r")\s*\(")
    count = 0
    for path in sys.argv[2:]:
        with open(path, encoding="utf-8") as file:
            text = file.read()
        for place, fault in faults_of(path, text, calls, pattern, words):
            line = text.count("\n", 0, place) + 1
            print(f"{path}:{line}: {fault}")
            count += 1
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
