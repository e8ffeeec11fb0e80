"""Functions of at most 70 lines, files of at most 900, no function that calls itself (also through
others of its file): recursion on input ends the stack."""
import re

import _lint

FUNCTION_LINES = 70
FILE_LINES = 900


def cycles(calls):
    """Names that can reach themselves in a graph of name -> names."""
    found = []
    for start in calls:
        seen, stack = set(), list(calls[start])
        while stack:
            name = stack.pop()
            if name not in seen:
                seen.add(name)
                stack += calls.get(name, ())
        if start in seen:
            found.append(start)
    return found


def check(tree):
    findings = []
    for path, text in tree.c_files(*_lint.LAYERS, "tests"):
        lines = text.count("\n")
        if lines > FILE_LINES:
            findings.append(f"{path}: {lines} lines, at most {FILE_LINES}")
        bodies = {}
        for name, first, last, body in _lint.functions(text):
            if last - first + 1 > FUNCTION_LINES:
                findings.append(f"{path}:{first}: {name} has {last - first + 1} lines, "
                                f"at most {FUNCTION_LINES}")
            bodies[name] = body
        if path.startswith(_lint.LIBRARY):
            calls = {name: {c for c in re.findall(r"(?<![\w.>])([A-Za-z_]\w*)\s*\(", body)
                            if c in bodies} for name, body in bodies.items()}
            findings += [f"{path}: {name} calls itself" for name in cycles(calls)]
    return findings


LONG = "int f(int a)\n{\n" + "    a++;\n" * 69 + "}\n"
BAD = [
    ({"format/base/a.c": LONG}, "f has 71 lines"),
    ({"cli/a.c": "static const int x = 1;\n" + LONG}, "f has 71 lines"),
    ({"tests/format/test_a.c": "int a;\n" * 901}, "901 lines"),
    ({"format/base/a.c": "int f(int a)\n{\n    return f(a);\n}\n"}, "f calls itself"),
    ({"format/base/a.c": "int g(int a);\nint f(int a)\n{\n    return g(a);\n}\n"
                         "int g(int a)\n{\n    if (a) {\n        f(a);\n    }\n    return 0;\n}\n"},
     "g calls itself"),
]
GOOD = [
    {"format/base/a.c": LONG.replace("    a++;\n", "", 1)},
    {"format/base/a.c": "/* f( */ int f(struct x *x)\n{\n    x->f(\"f()\"); return x.f();\n}\n"},
    {"format/base/a.c": "static const struct t a[] = {\n" + "    {1, f(2)},\n" * 100 + "};\n"},
]

if __name__ == "__main__":
    _lint.main(check, BAD, GOOD)
