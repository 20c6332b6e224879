"""flips.py: where a line of C can be broken in a way that a compiler does not see.

A flip is one small mistake: a comparison that is off by one or turned round, `&&` for `||` or the
other way, a `!` forgotten, a constant one too large, an early return that is missing. Comments,
strings, preprocessor lines and what stands in CHECK(...) are left alone: a check that is weaker
changes nothing until something else is wrong."""

import collections
import dataclasses
import re

TOKEN = re.compile(
    r"""(?P<comment>//[^\n]*|/\*.*?\*/)
      | (?P<directive>^[ \t]*\#(?:[^\n\\]|\\.|\\\n)*)
      | (?P<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
      | (?P<name>[A-Za-z_]\w*)
      | (?P<number>(?:0[xX][0-9a-fA-F]+|\d+)[uUlL]*(?![\w.]))
      | (?P<sign><<=|>>=|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||\S)
    """, re.VERBOSE | re.DOTALL | re.MULTILINE)
FUNCTION = re.compile(r"^\w[^;{}#/]*?(\w+)\([^;{}]*\)\s*\{", re.MULTILINE)
COMPARISONS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}
BOOLEANS = {"&&": "||", "||": "&&"}
SKIPPED_CALLS = ("CHECK", "static_assert", "_Static_assert", "__attribute__")


@dataclasses.dataclass(frozen=True)
class Flip:
    """One place of one file. start, end: of what is replaced, in characters."""

    path: str
    start: int
    end: int
    new: str
    line: int
    place: str  # the function, and the line as it was
    kind: str

    def apply(self, source):
        return source[:self.start] + self.new + source[self.end:]

    def key(self):
        """Names the flip also when lines before it come or go."""
        return f"{self.path}\t{self.place}\t{self.kind}"


def tokens(source):
    """[(kind, text, start, end)], without comments, directives and what a check holds."""
    found = []
    hidden = 0  # parentheses open since CHECK
    pending = False
    for match in TOKEN.finditer(source):
        kind, text = match.lastgroup, match.group()
        if kind in ("comment", "directive"):
            continue
        if hidden > 0:
            hidden += {"(": 1, ")": -1}.get(text, 0)
            continue
        if pending and text == "(":
            hidden, pending = 1, False
            continue
        pending = kind == "name" and text in SKIPPED_CALLS
        found.append((kind, text, match.start(), match.end()))
    return found


def _number(text):
    digits = text.rstrip("uUlL")
    value = int(digits, 16 if digits[:2].lower() == "0x" else 10) + 1
    return str(value) + text[len(digits):]


def _return_end(found, at):
    """The index of the `;` of the return statement at `at`, when it is the last of its block."""
    end = at
    while found[end][1] != ";":
        if found[end][1] in ("{", "}") or end + 1 == len(found):
            return None
        end += 1
    return end if end + 1 < len(found) and found[end + 1][1] == "}" else None


def find(path, source):
    """All flips of one file, in the order of their places."""
    found = tokens(source)
    flips = []
    functions = [(match.start(), match[1]) for match in FUNCTION.finditer(source)]
    seen = collections.Counter()

    def add(start, end, new, what):
        begin = source.rfind("\n", 0, start) + 1
        stop = source.find("\n", start)
        inside = [name for at, name in functions if at < start]
        place = f"{inside[-1] if inside else ''}: {' '.join(source[begin:stop].split())}"
        kind = f"{what} #{start - begin}"
        seen[place, kind] += 1
        if seen[place, kind] > 1:
            kind += f" ({seen[place, kind]})"  # the same line again in the same function
        new += "\n" * source.count("\n", start, end)  # the lines after it keep their numbers
        flips.append(Flip(path, start, end, new, source.count("\n", 0, start) + 1, place, kind))

    depth = 0
    for at, (kind, text, start, end) in enumerate(found):
        before = found[at - 1][1] if at > 0 else ""
        after = found[at + 1][1] if at + 1 < len(found) else ""
        depth += {"{": 1, "}": -1}.get(text, 0)
        if kind == "sign" and text in COMPARISONS:
            add(start, end, COMPARISONS[text], f"{text} -> {COMPARISONS[text]}")
        elif kind == "sign" and text in BOOLEANS:
            add(start, end, BOOLEANS[text], f"{text} -> {BOOLEANS[text]}")
        elif kind == "sign" and text == "!":
            add(start, end, "", "! gone")
        elif kind == "number" and not (before == "{" and after == "}"):
            add(start, end, _number(text), f"{text} -> {_number(text)}")
        elif text == "return" and depth >= 2 and before in ("{", ";"):
            last = _return_end(found, at)
            if last is not None:
                add(start, found[last][3], ";", "return gone")
    return flips
