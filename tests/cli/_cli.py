"""What the tests of the command share: runs, safetensors files, specs/cli.md as a tree of keys."""
import json
import os
import re
import subprocess
import sys

BINARY = os.environ.get("SHARDWRIGHT", "build/shardwright")
SOURCE_DIR = os.environ.get("SOURCE_DIR", ".")
VERBS = ("inspect", "verify", "convert", "plan", "diff", "hash", "sign", "cat", "demo")

failures = []
checks = 0


class Run:
    def __init__(self, *argv, env=None, raw=False, **more):
        done = subprocess.run([BINARY, *argv], capture_output="stdout" not in more,
                              stdin=subprocess.DEVNULL, env={**os.environ, **(env or {})},
                              timeout=120, check=False, **more)
        self.argv, self.code = argv, done.returncode
        self.raw_out, self.raw_err = done.stdout or b"", done.stderr or b""
        self.out = self.raw_out if raw else self.raw_out.decode("utf-8", "replace")
        self.err = self.raw_err.decode("utf-8", "replace")

    def __str__(self):
        return f"    {self.argv}: exit {self.code}\n    out: {self.out!r:.600}\n    err: {self.err!r:.600}"


def expect(what, truth, about=""):
    """One check; the failures are listed at the end."""
    global checks
    checks += 1
    if not truth:
        failures.append(f"{what}\n{about}")
    return truth


def exits(code, *argv, say=None, **more):
    """The run ends with this code, and says `say` on standard error (or output)."""
    run = Run(*argv, **more)
    expect(f"{' '.join(map(str, argv))}: exit {code}", run.code == code, run)
    if say is not None:
        expect(f"{' '.join(map(str, argv))}: says {say!r}", say in run.err + run.out, run)
    return run


def finish():
    for failure in failures[:int(os.environ.get("SW_FAILURES", "20"))]:
        print(failure)
    print(f"{checks} checks, {len(failures)} failed")
    sys.exit(1 if failures else 0)


def write_st(path, tensors, data=b"", metadata=None):
    """A safetensors file: {name: (dtype, shape, bytes)}."""
    header, offset = {}, 0
    if metadata:
        header["__metadata__"] = metadata
    for name, (dtype, shape, content) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape,
                        "data_offsets": [offset, offset + len(content)]}
        data += content
        offset += len(content)
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text + data)


# ---- specs/cli.md ---------------------------------------------------------------------------------


class Key:
    """A key of the JSON document as the specification has it."""

    def __init__(self, optional):
        self.optional, self.inner, self.in_list = optional, None, False


def parse_keys(text, pos=0):
    """`a`, `b`? {`c`}, `d` [{`e`}] ... up to the closing bracket."""
    keys, last = {}, None
    token = re.compile(r"`([a-z_]+)`(\?)?|(\[\{|\{)|(\}\]?)")
    while True:
        match = token.search(text, pos)
        if match is None:
            return keys, len(text)
        name, optional, opens, closes = match.groups()
        pos = match.end()
        if closes:
            return keys, pos
        if opens:
            last.inner, pos = parse_keys(text, pos)
            last.in_list = opens == "[{"
        else:
            last = keys[name] = Key(bool(optional))


def spec_keys():
    """{verb: keys}, "all" among them, from the section JSON."""
    with open(os.path.join(SOURCE_DIR, "specs", "cli.md"), encoding="utf-8") as file:
        text = file.read()
    section = text[text.index("## JSON"):]
    section = section[:section.index("\n## ", 5)]
    found = {}
    for line in re.split(r"\n(?=- )", section)[1:]:
        line = line.split("\n\n")[0]
        names, rest = line[2:].split(":", 1)
        # words in round brackets explain, and are no keys
        keys, _ = parse_keys(re.sub(r"\([^)]*\)", "", rest))
        for name in re.findall(r"[a-z]+", names):
            found[name] = keys
    return found


def severities_and_codes():
    """{finding code: severities} of the table of codes."""
    with open(os.path.join(SOURCE_DIR, "specs", "cli.md"), encoding="utf-8") as file:
        text = file.read()
    rows = re.findall(r"^\| (`.*?`) \| ([a-z, ]+) \|", text[text.index("## Finding codes"):], re.M)
    return {code: {s.strip() for s in levels.split(",")}
            for codes, levels in rows for code in re.findall(r"`([a-z-]+)`", codes)}


def check_object(where, value, keys, complete):
    for name in value:
        expect(f"{where}: the key {name} is in specs/cli.md", name in keys)
    for name, key in keys.items():
        if name not in value:
            expect(f"{where}: has {name}", key.optional or not complete)
        elif key.inner is not None:
            items = value[name] if key.in_list else [value[name]]
            expect(f"{where}.{name}: is a list", isinstance(value[name], list) == key.in_list)
            for item in items[:50]:
                check_object(f"{where}.{name}", item, key.inner, True)


def check_document(run, spec, codes):
    """The run's standard output is one JSON object with the keys of the specification."""
    verb = run.argv[0]
    try:
        document = json.loads(run.raw_out.decode("utf-8"))
    except ValueError as error:
        expect(f"{verb}: valid JSON", False, f"{error}\n{run}")
        return {}
    keys = {**spec["all"], **spec["run" if "run" in document else verb if verb in spec else "all"]}
    failed = "error" in document
    keys["error"].optional = not failed
    check_object(verb, document, keys, run.code == 0)
    for name in spec["all"]:
        expect(f"{verb}: has {name}", name in document or spec["all"][name].optional, run)
    expect(f"{verb}: exit is the exit code", document.get("exit") == run.code, run)
    expect(f"{verb}: command", document.get("command") == verb, run)
    order = ["danger", "defect", "warning", "note"]
    listed = [f["severity"] for f in document.get("findings", [])]
    expect(f"{verb}: worst findings first", listed == sorted(listed, key=order.index), run)
    for finding in document.get("findings", []):
        known = codes.get(finding["code"], set())
        expect(f"{verb}: finding {finding['code']} with severity {finding['severity']} is in "
               "specs/cli.md", finding["severity"] in known)
    for severity in order:
        expect(f"{verb}: {severity} counted",
               document["finding_counts"][severity] == listed.count(severity), run)
    return document
