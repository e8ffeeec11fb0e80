"""What the fault tests share: sample checkpoints made by the command itself, the commands under
test, and what must hold after each failed or killed run.

Environment: SHARDWRIGHT, SHARDWRIGHT_FAULT (the command, plain and with the shim); SW_FAULT_DENSE
(every k up to this, default 500; later ones are strided), SW_FAULT_JOBS.
"""
import concurrent.futures
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "harness"))
import llama_file  # noqa: E402
import torch_file  # noqa: E402

PLAIN = os.environ.get("SHARDWRIGHT", "build/shardwright")
FAULT = os.environ.get("SHARDWRIGHT_FAULT", "build/shardwright-fault")
DENSE = int(os.environ.get("SW_FAULT_DENSE", "500"))
JOBS = int(os.environ.get("SW_FAULT_JOBS", os.cpu_count() or 1))
TIMEOUT_S = 300
# A sanitizer's complaint must not look like one of the command's exit codes.
SANITIZERS = {name: os.environ.get(name, "") + ":exitcode=99"
              for name in ("ASAN_OPTIONS", "LSAN_OPTIONS", "UBSAN_OPTIONS")}
# Findings, could not, partly, refused. 0 is checked apart; a signal or a sanitizer's code is none.
FAILED = {1, 2, 3, 5}


# The sample's names on sides whose files are those of ranks: pieces in parts, copies, padding.
RANKS_MAP = """
map: 1
name: sample
models: [sample]
let: {U: 100, H: 48}
sides:
  hf: {}
  vllm:
    layout:
      mesh: {tp: 1}
      rules:
        - {tensor: "**.up.weight", dims: [tp], parts: [60, 40], units: [6, 1], copies: true}
        - {tensor: "**.down.weight", dims: [_, tp]}
        - {tensor: "embedding.weight", dims: [tp]}
        - {tensor: "**", dims: []}
  meta:
    layout:
      mesh: {tp: 1}
      rules:
        - {tensor: "**.up", dims: [tp]}
        - {tensor: "**", dims: []}
tensors:
  - {hf: embedding.weight, shape: [250, H], vllm: {name: embedding.weight, pad: [256, _]},
     meta: embedding}
  - repeat: {n: 2}
    tensors:
      - {hf: "layers.{n}.norm.weight", shape: [H], vllm: "layers.{n}.norm.weight",
         meta: "layers.{n}.norm"}
      - {hf: "layers.{n}.up.weight", shape: [U, H], vllm: "layers.{n}.up.weight",
         meta: "layers.{n}.up"}
      - {hf: "layers.{n}.down.weight", shape: [H, U], vllm: "layers.{n}.down.weight",
         meta: "layers.{n}.down"}
  - {hf: norm.weight, shape: [3], vllm: norm.weight, meta: norm}
"""


def tree(path):
    """Every name below a folder (or a file alone) with what it holds; None if nothing is there."""
    if not os.path.lexists(path):
        return None
    found = {}
    if os.path.isfile(path):
        with open(path, "rb") as file:
            return {".": hashlib.sha256(file.read()).hexdigest()}
    for folder, folders, names in os.walk(path):
        for name in folders:
            found[os.path.relpath(os.path.join(folder, name), path)] = "folder"
        for name in names:
            full = os.path.join(folder, name)
            with open(full, "rb") as file:
                found[os.path.relpath(full, path)] = hashlib.sha256(file.read()).hexdigest()
    return found


def comparable(text):
    """Output without what may differ: memory that could not be trimmed is still correct."""
    memory = r'[\d.]+ [kMG]?B of memory|"(catalog|memory|peak_memory)_bytes": *\d+'
    return re.sub(memory, "MEMORY", text)


class Result:
    def __init__(self, argv, env):
        whole_env = {**os.environ, **SANITIZERS, "LC_ALL": "C", **env}
        run = subprocess.run(argv, env=whole_env, capture_output=True, stdin=subprocess.DEVNULL,
                             timeout=TIMEOUT_S, check=False)
        self.code, self.out = run.returncode, run.stdout.decode("utf-8", "replace")
        self.err = run.stderr.decode("utf-8", "replace")


LAYOUT = """layout: 1
let: {ranks: dp_ranks ?? 1}
mesh: {dp: 1, tp: 1}
rules:
  - {tensor: ["**.down.weight"], dims: [dp, tp]}
  - {tensor: "layers.{n}.up.weight", dims: [tp>dp], units: 100}
  - {tensor: "**", dims: [dp]}
"""


# Of torch_file.training_run(): its optimizer follows.
RUN_MAP = """map: 1
name: run
let: {two: 2}
sides: {a: {}, b: {}}
tensors:
  - interleave:
      - {a: "{up,down}.weight", shape: [[6, 4], [4, 6]], b: {name: w, join: 0, groups: 2, pad: [16, _],
         rearrange: ["(two i) j -> (i two) j", "i j -> j i"]}}
      - {a: "{up,down}.bias", shape: [[6], [4]], b: {name: bias, join: 0, groups: two}}
  - repeat: {n: 2}
    let: {m: n + 1}
    tensors: [{b: "scale.{m}", shape: [2], fill: 1.0, dtype: float32, buffer: true}]
"""


# Of the flat parameter of 13 elements.
SHAPES = """shapes: 1
tensors:
- z.w: [2, 3]
- a.w: [3, 2]
- m.b: []
ties: {y.w: z.w}
units: []
"""


KEYS = {
    ".pem": """-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g
-----END PRIVATE KEY-----
""",
    ".pub": """-----BEGIN PUBLIC KEY-----
MCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=
-----END PUBLIC KEY-----
""",
    ".oms.pem": """-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgya+p2EW6dRZrXCFX
Z7HWk05Qw9s26JsSe4piKxIPZyGhRANCAARg/tS6JVqdMclh63TGNW1owEm4kjth
+mzmaWIuYPKftnkD/hAIuLyZpBrp6VYovGTy8bIMLX6fUXejwpTURiKZ
-----END PRIVATE KEY-----
""",
    ".oms.pub": """-----BEGIN PUBLIC KEY-----
MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEYP7UuiVanTHJYet0xjVtaMBJuJI7
Yfps5mliLmDyn7Z5A/4QCLi8maQa6elWKLxk8vGyDC1+n1F3o8KU1EYimQ==
-----END PUBLIC KEY-----
""",
}


class Command:
    """One command line to torture. argv holds SRC and DEST where the paths go; a command with DEST
    must make the tree of `want`, and with LIST the file of `want_list`; one without must print
    `want`; code is its exit code."""

    def __init__(self, name, *argv, old=None, code=0, program=None):
        self.name, self.argv, self.old, self.code, self.program = name, argv, old, code, program
        self.writes = "DEST" in argv
        self.lists = "LIST" in argv
        self.makes = ["dest"] + ["dest.list"] * self.lists
        self.want = self.want_list = None

    def line(self, binary, source, dest):
        places = {"SRC": source, "DAMAGED": source + ".damaged", "RUN": source + ".pt",
                  "NAMES": source + ".names", "STEPS": source + ".steps",
                  "UNITS": source + ".units.pt", "UNITLAYOUT": source + ".units.yaml",
                  "MODEL": source + ".model", "NUMBERS": source + ".numbers.pt",
                  "LAYOUT": source + ".yaml", "MAP": source + ".map.yaml",
                  "RUNMAP": source + ".run.yaml",
                  "FLAT": source + ".flat.pt", "SHAPES": source + ".shapes.yaml",
                  "VLLM": source + ".vllm", "META": source + ".meta", "DEST": dest,
                  "RANKS": source + ".ranks", "NATIVE": source + ".native",
                  "SWAPPED": source + ".swapped",
                  "PARTS": source + ".parts", "KEY": source + ".pem", "PUB": source + ".pub",
                  "SIG": source + ".sig", "OMSPUB": source + ".oms.pub",
                  "OMSSIG": source + ".oms.sig",
                  "LIST": dest + ".list"}
        return [self.program or binary] + [places.get(word, word) for word in self.argv]

    def explains(self, result):
        """A failure is told on stderr, or as the error of the one JSON document on stdout."""
        if result.err.strip() or "--json" not in self.argv:
            return result.err.strip() != ""
        try:
            return bool(json.loads(result.out)["error"])
        except (ValueError, KeyError, TypeError):
            return False


class Bench:
    """The sample, the reference results, and failures found so far."""

    def __init__(self):
        self.failures = []
        self.lock = threading.Lock()
        self.home = os.getcwd()
        self.source = os.path.join(self.home, "source")
        self.must(PLAIN, "demo", self.source)
        self.source_tree = tree(self.source)
        self.damage()
        self.make_steps()
        self.make_ranks()
        self.make_parts()
        torch_file.save(torch_file.training_run(), self.source + ".pt")
        torch_file.save(torch_file.unit_run(), self.source + ".units.pt")
        self.make_native()
        with open(self.source + ".units.yaml", "w", encoding="ascii") as file:
            file.write("layout: 1\nunits: [up, down]\n")
        torch_file.save({"_flat_param": torch_file.Tensor(13)}, self.source + ".flat.pt")
        with open(self.source + ".shapes.yaml", "w", encoding="ascii") as file:
            file.write(SHAPES)
        with open(self.source + ".names", "w", encoding="ascii") as file:
            file.write("up.weight\nup.bias\ndown.weight\ndown.bias\n")
        with open(self.source + ".yaml", "w", encoding="ascii") as file:
            file.write(LAYOUT)
        with open(self.source + ".run.yaml", "w", encoding="ascii") as file:
            file.write(RUN_MAP)
        self.make_model()
        self.make_keys()
        sharded = ("convert", "SRC", "DEST", "--to", "hf:shard=40kB", "--dtype", "bf16", "--verify")
        self.commands = [
            Command("demo", "demo", "DEST"),
            Command("save", "DEST", "dcp:ranks=2", program=FAULT + "-save"),
            Command("save-native", "DEST", "native", program=FAULT + "-save"),
            Command("native", "convert", "RUN", "DEST", "--to", "native:ranks=2", "--verify"),
            Command("from-native", "convert", "NATIVE", "DEST", "--to", "torch"),
            Command("verify-swapped", "verify", "SWAPPED", code=1),
            Command("part", "verify", "SRC", "--subset", "1/2", "--tensors", "model.*"),
            Command("inspect", "inspect", "SRC"),
            Command("inspect-json", "inspect", "SRC", "--json", "--tensors", "*", "--values"),
            Command("verify", "verify", "SRC"),
            Command("verify-damaged", "verify", "DAMAGED", code=1),
            Command("values", "verify", "SRC", "--level", "values"),
            Command("audit", "verify", "STEPS", code=1),
            Command("model", "verify", "MODEL", "--config", "MODEL", code=1),
            Command("order", "plan", "NUMBERS", "--to", "dcp", "--config", "MODEL"),
            Command("hash", "hash", "SRC", "--weights"),
            Command("hash-write", "hash", "SRC", "--write", "DEST"),
            Command("sign", "sign", "SRC", "--key", "KEY", "--out", "DEST"),
            Command("signed", "verify", "SRC", "--signature", "SIG", "--key", "PUB"),
            Command("signed-files", "verify", "SRC", "--signature", "OMSSIG", "--key", "OMSPUB",
                    "--level", "structure"),
            Command("diff", "diff", "SRC", "SRC", "--state"),
            Command("plan", "plan", "SRC", "--to", "hf"),
            Command("cat", "cat", "SRC", "model.norm.weight"),
            Command("convert", "convert", "SRC", "DEST", "--to", "hf"),
            Command("sharded", *sharded),
            Command("torch", "convert", "SRC", "DEST", "--to", "torch", "--verify"),
            Command("torch-legacy", "convert", "SRC", "DEST", "--to", "torch:form=legacy"),
            Command("numbers", "plan", "RUN", "--to", "dcp"),
            Command("forms", "convert", "RUN", "DEST", "--to", "dcp:ranks=2,optimizer=flat",
                    "--param-names", "NAMES", "--verify"),
            Command("mapped", "convert", "RUN", "DEST", "--to", "dcp:ranks=2,names=b", "--map",
                    "RUNMAP", "--param-names", "NAMES"),
            Command("parts", "convert", "PARTS", "DEST", "--to", "dcp:ranks=2", "--verify"),
            Command("emit-layout", "inspect", "SRC", "--emit-layout"),
            Command("emit-shapes", "inspect", "RUN", "--emit-shapes", "--map", "RUNMAP"),
            Command("flat", "convert", "FLAT", "DEST", "--to", "hf", "--shapes", "SHAPES", "--verify"),
            Command("layout", "convert", "SRC", "DEST", "--to", "fsdp2:dp=2,tp=2", "--layout",
                    "LAYOUT"),
            Command("ranks", "convert", "RUN", "DEST", "--to", "fsdp2:dp=2,files=ranks",
                    "--param-names", "NAMES", "--verify"),
            Command("rows", "convert", "UNITS", "DEST", "--to", "fsdp1:dp=3,mode=local,files=ranks",
                    "--layout", "UNITLAYOUT", "--param-names", "NAMES", "--verify"),
            Command("flat", "convert", "SRC", "DEST", "--to", "fsdp1:dp=2,mode=local"),
            Command("overwrite", *sharded, "--overwrite", old="old"),
            Command("digests", "convert", "SRC", "DEST", "--to", "hf:shard=40kB", "--digests",
                    "LIST"),
            Command("vllm", "convert", "SRC", "DEST", "--to", "vllm:tp=2,part=20kB", "--map", "MAP",
                    "--from-names", "hf", "--verify"),
            Command("from-vllm", "convert", "VLLM", "DEST", "--to", "hf", "--map", "MAP"),
            Command("from-ranks", "convert", "RANKS", "DEST", "--to", "dcp:ranks=2"),
            Command("from-meta", "convert", "META", "DEST", "--to", "meta:tp=1", "--map", "MAP",
                    "--verify"),
        ]
        # What is replaced: an earlier conversion.
        self.must(PLAIN, "convert", self.source, os.path.join(self.home, "old"), "--to", "hf")
        for command in self.commands:
            self.prepare(command)

    def make_ranks(self):
        """The sample as files of two ranks, and the map that says what they are parts of."""
        text = self.source + ".map.yaml"
        with open(text, "w", encoding="ascii") as file:
            file.write(RANKS_MAP)
        for kind in ("vllm", "meta"):
            self.must(PLAIN, "convert", self.source, f"{self.source}.{kind}", "--to",
                      f"{kind}:tp=2", "--map", text, "--from-names", "hf")
        self.must(PLAIN, "convert", self.source, self.source + ".ranks", "--to",
                  "fsdp2:dp=2,files=ranks", "--drop", "optimizer*")

    def make_native(self):
        """The run in our own format, and the same with two of its files in each other's place."""
        good, swapped = self.source + ".native", self.source + ".swapped"
        self.must(PLAIN, "convert", self.source + ".pt", good, "--to", "native:ranks=3")
        shutil.copytree(good, swapped)
        for rank in (0, 2):
            shutil.copy(os.path.join(good, f"rank-{rank:05}-of-00003.sws"),
                        os.path.join(swapped, f"rank-{2 - rank:05}-of-00003.sws"))

    def make_parts(self):
        """The sample's model and optimizer in folders of their own, as a trainer has them."""
        parts = self.source + ".parts"
        os.mkdir(parts)
        for name, choice in (("pytorch_model_fsdp_0", "--drop"), ("optimizer_0", "--only")):
            self.must(PLAIN, "convert", self.source, os.path.join(parts, name), "--to", "dcp:ranks=2",
                      choice, "optimizer*")

    def make_keys(self):
        """Published test keys (RFC 8032, RFC 6979), and the sample signed with them. An Ed25519
        signature is the same each time."""
        for name, text in KEYS.items():
            with open(self.source + name, "w", encoding="ascii") as file:
                file.write(text)
        self.must(PLAIN, "sign", self.source, "--key", self.source + ".pem", "--out",
                  self.source + ".sig")
        self.must(PLAIN, "sign", self.source, "--key", self.source + ".oms.pem", "--format", "oms",
                  "--out", self.source + ".oms.sig")

    def make_steps(self):
        """A run of two steps, of which the newer lacks its index, with a file and a link to them."""
        steps = self.source + ".steps"
        for name in ("step-9", "step-10"):
            shutil.copytree(self.source, os.path.join(steps, name))
        os.remove(os.path.join(steps, "step-10", ".metadata"))
        os.symlink("step-9", os.path.join(steps, "last"))
        with open(os.path.join(steps, "latest"), "w", encoding="ascii") as file:
            file.write("step-10")

    def make_model(self):
        """A model of which a layer is missing, a name and a shape are wrong; and a run of it whose
        module is sorted by name."""
        norm = "model.norm.weight"
        llama_file.write(self.source + ".model", shapes={"0.mlp.up_proj.weight": [4, 4]},
                         without=["model.layers.2."], rename={norm: "model.nrom.weight"},
                         tie_word_embeddings=True)
        names = [name for name in llama_file.llama() if name != "lm_head.weight"]
        llama_file.write_run(self.source + ".numbers.pt", sorted(names), [names])

    def damage(self):
        """A copy of the source with one bit of one data file flipped."""
        copy = self.source + ".damaged"
        shutil.copytree(self.source, copy)
        name = sorted(n for n in os.listdir(copy) if n.endswith(".distcp"))[0]
        with open(os.path.join(copy, name), "r+b") as file:
            file.seek(os.path.getsize(os.path.join(copy, name)) // 2)
            byte = file.read(1)[0]
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([byte ^ 16]))

    def must(self, *argv, code=0):
        result = Result(argv, {})
        if result.code != code:
            sys.exit(f"{argv}: exit {result.code}: {result.err}")
        return result

    def prepare(self, command):
        folder = self.fresh("reference-" + command.name, command)
        dest = os.path.join(folder, "dest")
        result = self.must(*command.line(PLAIN, self.source, dest), code=command.code)
        command.want = tree(dest) if command.writes else comparable(result.out)
        command.want_list = tree(dest + ".list")
        again = self.fresh("again-" + command.name, command)
        counts = os.path.join(self.home, command.name + ".count")
        dest = os.path.join(again, "dest")
        result = Result(command.line(FAULT, self.source, dest), {"SW_FAULT_COUNT": counts})
        self.check_success(command, dest, result, "without a fault")
        with open(counts, encoding="ascii") as file:
            command.counts = json.load(file)

    def fresh(self, name, command):
        folder = os.path.join(self.home, name)
        shutil.rmtree(folder, ignore_errors=True)
        os.mkdir(folder)
        if command.old:
            shutil.copytree(os.path.join(self.home, command.old), os.path.join(folder, "dest"))
        return folder

    def fail(self, command, case, why, result=None):
        text = f"{command.name} {case}: {why}"
        if result is not None:
            text += f"\n    exit {result.code}: {result.err.strip()[-600:]}"
        with self.lock:
            self.failures.append(text)
            if len(self.failures) <= 20:
                print(text, flush=True)

    def check_success(self, command, dest, result, case):
        if result.code != command.code:
            self.fail(command, case, f"must end with {command.code}", result)
        elif command.writes and (tree(dest), tree(dest + ".list")) != (command.want,
                                                                       command.want_list):
            self.fail(command, case, "succeeded with another result than without faults", result)
        elif not command.writes and comparable(result.out) != command.want:
            self.fail(command, case, "succeeded with another output than without faults", result)

    def check_name(self, command, dest, case, result=None):
        """The final name is complete or as before, and so is the list that comes with it, which only
        a kill or a disk on which nothing works any more may leave out. Returns whether it is complete."""
        found, listed = tree(dest), tree(dest + ".list")
        killed = result is None or result.code == 137 or "sticky" in case
        if listed != command.want_list and not (listed is None and killed):
            if listed is not None or found == command.want:
                self.fail(command, case, f"the list is wrong: {listed}", result)
        if found == command.want:
            return True
        if listed is not None:
            self.fail(command, case, "a list of what is not there", result)
        if found != tree(os.path.join(self.home, command.old) if command.old else ""):
            self.fail(command, case, f"a partial result under the final name: {found}", result)
        return False

    def rerun(self, command, folder, case):
        """A run without faults after a failed one: completes, and leaves nothing else behind."""
        dest = os.path.join(folder, "dest")
        result = Result(command.line(PLAIN, self.source, dest), {})
        self.check_success(command, dest, result, f"rerun after {case}")
        if sorted(os.listdir(folder)) != command.makes:
            self.fail(command, f"rerun after {case}", f"left {sorted(os.listdir(folder))}")

    def check_source(self, case):
        if tree(self.source) != self.source_tree:
            sys.exit(f"the source was changed: {case}")

    def sweep(self, run_one, cases):
        """Runs run_one(case, name of a folder) for every case, several at a time."""
        done = 0
        free = list(range(JOBS))

        def run(case):
            with self.lock:
                slot = free.pop()
            try:
                run_one(case, f"slot{slot}")
            except subprocess.TimeoutExpired as error:
                self.fail(case[0], case[1:], f"hangs: {error}")
            finally:
                with self.lock:
                    free.append(slot)

        with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
            for _ in pool.map(run, cases):
                done += 1
        self.check_source("by one of the runs")
        return done

    def finish(self, done):
        print(f"{done} runs with faults, {len(self.failures)} failures")
        sys.exit(1 if self.failures or done == 0 else 0)


def every_k(count):
    """1 .. DENSE, then about a hundred more up to the end."""
    dense = list(range(1, min(count, DENSE) + 1))
    stride = max(1, (count - DENSE) // 100)
    return dense + list(range(DENSE + 1, count + 1, stride))


def sweep_calls(kind, variable, suffixes, allowed):
    """Makes each call of a kind (alloc, io) fail, for every command, and checks what must hold."""
    bench = Bench()
    cases = [(command, k, suffix) for command in bench.commands
             for suffix in suffixes for k in every_k(command.counts[kind])]

    def run_one(case, slot):
        command, k, suffix = case
        folder = bench.fresh(slot, command)
        dest = os.path.join(folder, "dest")
        name = f"{variable}={k}{suffix}"
        result = Result(command.line(FAULT, bench.source, dest), {variable: f"{k}{suffix}"})
        if result.code == command.code:
            bench.check_success(command, dest, result, name)
            return
        if result.code not in allowed:
            bench.fail(command, name, "wrong exit code", result)
        if not command.explains(result):
            bench.fail(command, name, "failed without a word", result)
        complete = command.writes and bench.check_name(command, dest, name, result)
        if command.writes and not complete and (suffix == "" or k % 5 == 0):
            bench.rerun(command, folder, name)

    bench.finish(bench.sweep(run_one, cases))
