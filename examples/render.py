"""Replaces values in the marked lines of an envoy.yaml: render.py FILE MARK=JSON... prints the result.

A marked line ends with `{ … }  # MARK`; the braces and their contents are replaced.
"""

import json
import sys


def render(text: str, values: dict[str, object]) -> str:
    left = dict(values)
    lines = []
    for line in text.splitlines():
        before, _, mark = line.rpartition("  # ")
        if mark in left and "{" in before:
            line = before.partition("{")[0] + json.dumps(left.pop(mark))
        lines.append(line)
    if left:
        raise SystemExit(f"no line is marked: {', '.join(left)}")
    return "\n".join(lines) + "\n"


def main() -> None:
    path, *pairs = sys.argv[1:]
    values = {}
    for pair in pairs:
        mark, _, value = pair.partition("=")
        values[mark] = json.loads(value)
    with open(path, encoding="utf-8") as file:
        print(render(file.read(), values), end="")


if __name__ == "__main__":
    main()
