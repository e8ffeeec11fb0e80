"""Damage x kinds of checkpoints, every cell that can exist: the exit codes of verify and convert, the
words, nothing run, nothing published, the source as it was, and what to do next. A cell that cannot
exist has its reason in the table. The test ends with the table as it was run.
"""
import json
import os
import re
import shutil
import struct
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import _cli
import _inputs as make
from _cli import Run, expect

T = "layers.0.up.weight"  # (100, 48) float32, in a part of its own in every kind
ELEMENT = 1234            # of it, is damaged: [25, 34]
PLACE = "[25, 34]"
MARKER = os.path.abspath("it-ran")
NAN = struct.pack("<f", float("nan"))


# ---- the kinds ------------------------------------------------------------------------------------


class Kind:
    """`path` is what a command is given, and `file` what holds the element of T at `offset`."""

    def __init__(self, title, folder, tensor, alone=None):
        self.title, self.folder, self.tensor, self.alone = title, folder, tensor, alone
        self.file, self.offset = self.find()

    def path(self, folder):
        return os.path.join(folder, self.alone) if self.alone else folder

    def files(self):
        return sorted(f for f in os.listdir(self.folder))


class Dcp(Kind):
    checked = True
    index = ".metadata"

    def find(self):
        """Where a chunk's storage is, and in it the element."""
        index = make.read_index(self.folder)
        chunks = [c.state for c in index.state["state_dict_metadata"][self.tensor].state["chunks"]]
        where = make.places(index)
        row, column = divmod(ELEMENT, 48)
        for chunk in chunks:
            first, rows = chunk["offsets"].args[0][0], chunk["sizes"].args[0][0]
            if first <= row < first + rows:
                at = where[self.tensor, tuple(chunk["offsets"].args[0])]
                return at["relative_path"], self.data_of(at) + 4 * ((row - first) * 48 + column)
        raise ValueError(self.tensor)

    def data_of(self, at):
        path = os.path.join(self.folder, at["relative_path"])
        with open(path, "rb") as file:
            file.seek(at["offset"])
            item = file.read(at["length"])
        make.write("item", item)
        return at["offset"] + next(o for n, o, _ in make.records_of("item") if n.endswith("/data/0"))


class Safetensors(Kind):
    checked = False
    index = "model.safetensors.index.json"

    def find(self):
        for name in self.files():
            if name.endswith(".safetensors"):
                header, data = make.read_header(os.path.join(self.folder, name))
                if self.tensor in header:
                    return name, data + header[self.tensor]["data_offsets"][0] + 4 * ELEMENT
        raise ValueError(self.tensor)


class Torch(Kind):
    checked = True
    index = "pytorch_model.bin.index.json"

    def find(self):
        """By its bytes: of the numbers a tensor holds each is in one place only."""
        wanted = content[T][:400]
        for name in self.files():
            if name.endswith(".json"):
                continue
            with open(os.path.join(self.folder, name), "rb") as file:
                at = file.read().find(wanted)
            if at >= 0:
                return name, at + 4 * ELEMENT
        raise ValueError(self.tensor)


content = {}  # the model's tensors by name: raw bytes, as safetensors of the sample have them
shapes = {}


def read_content():
    header, data = make.read_header("hf-single/model.safetensors")
    with open("hf-single/model.safetensors", "rb") as file:
        file.seek(data)
        rest = file.read()
    for name, entry in header.items():
        if name != "__metadata__":
            content[name] = rest[slice(*entry["data_offsets"])]
            shapes[name] = entry["shape"]


def as_torch(names):
    return {n: make.Tensor(make.Storage("FloatStorage", 4, content[n]), shapes[n]) for n in names}


def make_kinds():
    def convert(*argv):
        done = Run("convert", *argv)
        expect("a kind is made", done.code == 0, done)

    expect("the sample is made", Run("demo", "dcp").code == 0)
    convert("dcp", "dcp-model", "--to", "dcp:ranks=3", "--only", "model.*")
    convert("dcp", "hf-sharded", "--to", "hf:shard=50KB")
    convert("dcp", "hf-single", "--to", "hf")
    read_content()
    names = sorted(content)
    for folder in ("torch-full", "torch-weights", "torch-sharded", "torch-own"):
        os.mkdir(folder)
    moments = {i: {"step": make.floats([7.0], []), "exp_avg": as_torch([n])[n]}
               for i, n in enumerate(names)}
    group = {"lr": 0.1, "betas": (0.9, 0.95), "params": list(range(len(names)))}
    make.torch_save("torch-full/step.pt", {
        "model": as_torch(names), "optimizer": {"state": moments, "param_groups": [group]},
        "epoch": 3})
    make.torch_save("torch-weights/model.pt", as_torch(names))
    halves = names[:4], names[4:]
    listed = {}
    for i, half in enumerate(halves):
        name = f"pytorch_model-0000{i + 1}-of-00002.bin"
        make.torch_save(f"torch-sharded/{name}", as_torch(half))
        listed.update({n: name for n in half})
    total = sum(len(c) for c in content.values())
    make.write("torch-sharded/pytorch_model.bin.index.json",
               json.dumps({"metadata": {"total_size": total}, "weight_map": listed}))
    convert("dcp", "torch-own/step.pt", "--to", "torch")
    return [Dcp("DCP", "dcp", "model." + T), Dcp("DCP model", "dcp-model", "model." + T),
            Safetensors("HF sharded", "hf-sharded", T), Safetensors("HF single", "hf-single", T),
            Torch("torch full", "torch-full", "model." + T, "step.pt"),
            Torch("torch weights", "torch-weights", T, "model.pt"),
            Torch("torch sharded", "torch-sharded", T),
            Torch("torch by convert", "torch-own", "model." + T, "step.pt")]


# ---- one cell -------------------------------------------------------------------------------------

spec, codes = _cli.spec_keys(), _cli.severities_and_codes()


class Cell:
    """A damaged copy of a kind, and what the commands are expected to say of it."""

    def __init__(self, damage, kind, what=""):
        self.kind = kind
        self.label = f"{damage} x {kind.title}{': ' + what if what else ''}"
        self.folder = make.copy(kind.folder, "broken")
        self.path = kind.path(self.folder)

    def file(self, name=None):
        return os.path.join(self.folder, name or self.kind.file)

    def judge(self, run, code, words):
        expect(f"{self.label}: {run.argv[0]} exits {code}", run.code == code, run)
        for word in words:
            expect(f"{self.label}: {run.argv[0]} says {word!r}", word in run.out + run.err, run)

    def finding(self, run, want):
        """A finding has these of its keys: {"file": ..., "tensor": ..., "code": ...}"""
        document = _cli.check_document(run, spec, codes)
        found = document.get("findings", [])
        expect(f"{self.label}: a finding with {want}",
               any(all(f.get(k) == v for k, v in want.items()) for f in found), run)

    def check(self, verify, convert, words=(), convert_words=None, finding=None, advice=True,
              argv=("--to", "hf")):
        """Of `words` each is said by both; `convert` 0 means that it is done."""
        before = make.tree(self.folder)
        said = Run("verify", self.path)
        self.judge(said, verify, words)
        if finding is not None:
            self.finding(Run("verify", "--json", self.path), finding)
        Run("inspect", self.path)
        done = Run("convert", self.path, "out", *argv)
        self.judge(done, convert, words if convert_words is None else convert_words)
        for run, bad in ((said, verify != 0), (done, convert != 0)):
            if bad and advice:
                expect(f"{self.label}: {run.argv[0]} says what to do", "next: " in run.out + run.err
                       or re.search(r"; [a-z-]+", run.err), run)
        expect(f"{self.label}: the source is as it was", make.tree(self.folder) == before)
        expect(f"{self.label}: nothing ran", not os.path.exists(MARKER))
        left = [n for n in os.listdir(".") if n.startswith("out") and (convert or n != "out")]
        expect(f"{self.label}: nothing is left", not left, str(left))
        shutil.rmtree("out", ignore_errors=True)
        return said, done


# ---- the damages ----------------------------------------------------------------------------------


def lengths(size):
    return sorted({0, 1, 30, size // 3, size // 2, size - 100, size - 1} & set(range(size)))


def cut(kind):
    for name in kind.files():
        size = os.path.getsize(os.path.join(kind.folder, name))
        for length in lengths(size):
            cell = Cell("cut", kind, f"{name} to {length} of {size}")
            make.cut(cell.file(name), length)
            if kind.alone:  # the only file there is: torch's by its name, when not by its content
                cell.check(1, 2, [name])
                continue
            if name.endswith(".json") and length == size - 1:
                continue  # the end of its last line
            cell.check(1, 2, [name], finding={"severity": "defect"})


def cut_names_the_tensor(kind):
    """A cut in T is said of T, with both sizes."""
    cell = Cell("cut", kind, "in the tensor")
    make.cut(cell.file(), kind.offset)
    size = os.path.getsize(os.path.join(kind.folder, kind.file))
    if isinstance(kind, Torch):  # its directory lies at the end
        cell.check(1, 2, [kind.file, f"{kind.offset} bytes"])
    elif isinstance(kind, Dcp):
        cell.check(1, 2, [kind.file, kind.tensor, str(kind.offset)],
                   finding={"file": kind.file, "code": "short-file"})
    else:
        cell.check(1, 2, [kind.file, str(size), str(kind.offset)], finding={"file": kind.file})


def flipped(kind):
    cell = Cell("flipped bit", kind)
    make.flip(cell.file(), kind.offset, 3)
    if kind.checked:
        cell.check(1, 2, [kind.file, kind.tensor], convert_words=[kind.file, T],
                   finding={"severity": "defect", "code": "crc-mismatch", "file": kind.file,
                            "tensor": kind.tensor})
        return
    said, _ = cell.check(0, 0, ["not checked"])
    expect(f"{cell.label}: nothing is said to be checked", "checked by CRC or digest: 0 B;" in said.out, said)
    listed = Run("hash", kind.folder, "--weights", "--write", "good.digests", "--overwrite")
    expect("a digest list is made", listed.code == 0, listed)
    said = Run("verify", cell.path, "--digests", "good.digests")
    cell.judge(said, 1, [T, "digest-mismatch", "next: "])
    expect(f"{cell.label}: one tensor differs", said.out.count("[digest-mismatch]") == 1, said)
    cell.judge(Run("verify", kind.folder, "--digests", "good.digests"), 0, [])
    cell.judge(Run("diff", kind.folder, cell.path), 1, [T, PLACE])


def missing_file(kind):
    for name in kind.files():
        if name == kind.index:
            continue
        cell = Cell("missing file", kind, name)
        os.remove(cell.file(name))
        said, _ = cell.check(1, 2, [name], finding={"code": "missing-file", "file": name})
        if name != kind.file:
            continue
        if isinstance(kind, Dcp):
            cell.finding(Run("verify", "--json", cell.path), {"code": "hole",
                                                              "tensor": kind.tensor})
        else:
            expect(f"{cell.label}: how many tensors, and one of them",
                   re.search(r'places [34] tensors in this file, "[a-z]', said.out), said)


def missing_index(kind):
    cell = Cell("missing index", kind)
    os.remove(cell.file(kind.index))
    if isinstance(kind, Dcp):
        ranks = "0-3" if kind.folder == "dcp" else "0-2"
        cell.check(1, 2, [".metadata is missing", ranks], finding={"severity": "defect"})
        return
    # the numbers in the names tell that all is there; loaders that follow the index find nothing
    cell.check(0, 0, [kind.index, "no-index"], convert_words=[])
    os.remove(cell.file(kind.file))
    cell.check(1, 2, ["missing: "], finding={"code": "missing-file"})


def evil(kind):
    call = make.evil_touch(MARKER)
    posix = "system"
    if isinstance(kind, Dcp):
        cell = Cell("malicious pickle", kind, "the index")
        index = make.read_index(cell.folder)
        index.state["planner_data"] = {"x": call}
        make.write_index(cell.folder, index)
        cell.check(5, 5, [".metadata", posix, "at byte"], finding={"severity": "danger"})
        cell = Cell("malicious pickle", kind, "a tensor's item")
        index = make.read_index(cell.folder)
        where = next(v for (n, _), v in make.places(index).items() if n == kind.tensor)
        make.put_item(cell.folder, index, where, make.archive_of([call]))
        cell.check(5, 5, [where["relative_path"], posix, "at byte"],
                   finding={"severity": "danger", "file": where["relative_path"]})
        if kind.folder == "dcp":
            cell = Cell("malicious pickle", kind, "an object")
            index = make.read_index(cell.folder)
            where = make.places(index)["trainer.epoch", None]
            make.put_item(cell.folder, index, where, make.archive_of({"a": [1, (call,)]}))
            cell.check(5, 5, [where["relative_path"], posix, "trainer.epoch"],
                       finding={"severity": "danger", "file": where["relative_path"]})
            done = Run("convert", cell.path, "out", "--to", "hf", "--drop-unsafe")
            cell.judge(done, 0, ["done: out"])
            expect(f"{cell.label}: nothing ran", not os.path.exists(MARKER))
            shutil.rmtree("out", ignore_errors=True)
        return
    if isinstance(kind, Torch):
        cell = Cell("malicious pickle", kind)
        value = as_torch(content)
        value["x"] = {"deep": [(call,)]}
        make.torch_save(cell.file(), value)
        cell.check(5, 5, [kind.file, posix, "at byte"],
                   finding={"severity": "danger", "file": kind.file})
        return
    cell = Cell("malicious pickle", kind, "beside the weights")
    make.torch_save(cell.file("training_args.bin"), call)
    # convert reads the checkpoint alone
    cell.check(5, 0, [posix], convert_words=[], finding={"severity": "danger",
                                                         "file": "training_args.bin"})


def put_nan(kind, cell):
    """NaN that was saved: where bytes have a CRC, it is that of the NaN."""
    if isinstance(kind, Safetensors):
        make.patch(cell.file(), kind.offset, NAN)
        return
    with open(cell.file(), "rb") as file:
        data = file.read()
    if isinstance(kind, Torch):
        make.write(cell.file(), make.patched(data, kind.offset, NAN))
        return
    index = make.read_index(cell.folder)
    at = next(v for v in make.places(index).values() if v["relative_path"] == kind.file
              and 0 <= kind.offset - v["offset"] < v["length"])
    item = data[at["offset"]:at["offset"] + at["length"]]
    make.put_item(cell.folder, index, at, make.patched(item, kind.offset - at["offset"], NAN))


def nan(kind):
    cell = Cell("NaN", kind)
    put_nan(kind, cell)
    said = Run("verify", "--level", "values", cell.path)
    cell.judge(said, 0, [T, "[nan]", PLACE])
    cell.finding(Run("verify", "--level", "values", "--json", cell.path),
                 {"severity": "warning", "code": "nan", "tensor": kind.tensor})
    expect(f"{cell.label}: of one tensor", said.out.count("[nan]") == 1, said)
    cell.check(0, 0)
    done = Run("convert", cell.path, "out-nan", "--to", "hf")
    cell.judge(done, 0, [])
    again = Run("cat", "out-nan", T + PLACE.replace(" ", ""), "--raw", raw=True)
    expect(f"{cell.label}: converted to the bit", again.raw_out == NAN, again)
    shutil.rmtree("out-nan", ignore_errors=True)


# ---- the table ------------------------------------------------------------------------------------

ONE_FILE = "one file is all there is: without it there is no checkpoint"
NO_INDEX = "there is no index: the file says itself what it holds"
CELLS = [  # (damage, {class of kinds: function, or the reason why there is no such cell})
    ("cut", {Dcp: (cut, cut_names_the_tensor), Safetensors: (cut, cut_names_the_tensor),
             Torch: (cut, cut_names_the_tensor)}),
    ("flipped bit", {Dcp: (flipped,), Safetensors: (flipped,), Torch: (flipped,)}),
    ("missing rank or shard file", {Dcp: (missing_file,), Safetensors: (missing_file,),
                                    Torch: (missing_file,)}),
    ("missing metadata or index", {Dcp: (missing_index,), Safetensors: (missing_index,),
                                   Torch: (missing_index,)}),
    ("malicious pickle", {Dcp: (evil,), Safetensors: (evil,), Torch: (evil,)}),
    ("NaN, at --level values", {Dcp: (nan,), Safetensors: (nan,), Torch: (nan,)}),
]
ABSENT = {(d, t): r for t in ("HF single", "torch full", "torch weights", "torch by convert")
          for d, r in (("missing rank or shard file", ONE_FILE),
                       ("missing metadata or index", NO_INDEX))}


def only_file_is_missing(kind):
    """What cannot exist as a cell still has an answer."""
    os.makedirs("bare", exist_ok=True)
    for command in (["verify"], ["convert"]):
        run = Run(*command, kind.path("bare"), *(["out", "--to", "hf"] if command == ["convert"]
                                                 else []))
        expect(f"no file x {kind.title}: {command[0]} exits 2", run.code == 2, run)
    expect("no file: nothing is made", not os.path.exists("out"))


def main():
    kinds = make_kinds()
    rows = []
    for kind in kinds:
        expect(f"{kind.title}: good", Run("verify", kind.path(kind.folder)).code == 0)
    for damage, of_class in CELLS:
        for kind in kinds:
            before, failed = _cli.checks, len(_cli.failures)
            reason = ABSENT.get((damage, kind.title))
            if reason is None:
                for function in of_class[type(kind)]:
                    function(kind)
            elif reason is ONE_FILE:
                only_file_is_missing(kind)
            bad = len(_cli.failures) - failed
            count = _cli.checks - before
            rows.append((damage, kind.title, f"no such cell: {reason}" if reason else
                         f"{count} checks" + (f", {bad} FAILED" if bad else "")))
    for kind in kinds:
        expect(f"{kind.title}: still good", Run("verify", kind.path(kind.folder)).code == 0)
    for row in rows:
        print(f"{row[0]:28} {row[1]:18} {row[2]}")
    _cli.finish()


if __name__ == "__main__":
    main()
