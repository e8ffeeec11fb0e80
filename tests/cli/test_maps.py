"""Maps on the command line: every shipped one there and back, and what is wrong with a source that a
map must not pass over: padding, ties, constants, configurations, experts, names."""
import hashlib
import json
import os
import re
import resource
import shutil
import struct
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import _cli
from _cli import SOURCE_DIR, Run, exits, expect, write_st

sys.path.insert(0, os.path.join(SOURCE_DIR, "tests", "harness"))
import torch_file

# Always one, by the map of deepseek-v3.
TIED = ((".embed_tokens.weight", "model.embed_tokens.weight"),
        ("lm_head.weight", "model.layers.2.shared_head.head.weight"))
CASES = os.path.join(SOURCE_DIR, "tests", "golden", "maps")


# ---- checkpoints of a side --------------------------------------------------------------------------


class Case:
    """A configuration, and the tensors that each side of its map has (tests/golden/maps)."""

    def __init__(self, name):
        self.name, self.folder = name, os.path.join(CASES, name)
        self.config = os.path.join(self.folder, "config.json")
        self.sides, side = {}, None
        with open(os.path.join(self.folder, "sides.txt"), encoding="utf-8") as file:
            for line in file:
                if line.startswith("side "):
                    side = self.sides.setdefault(line.split()[1], {})
                else:
                    found = re.fullmatch(r"(\S+) \[([\d,]*)\] ?([a-z]*)", line.rstrip("\n"))
                    shape = [int(n) for n in found[2].split(",") if n]
                    side[found[1]] = (shape, found[3])

    def tensors(self, side):
        """Numbers that are nowhere twice; constants are one."""
        made, at = {}, 0
        for name, (shape, flags) in self.sides[side].items():
            count = 1
            for n in shape:
                count *= n
            values = [1.0] * count if "c" in flags else [float(at + i) for i in range(count)]
            at += count
            for tied, first in TIED:
                if name.endswith(tied) and first in made:
                    values = [*struct.unpack(f"<{count}f", made[first][2])]
            made[name] = ("F32", shape, struct.pack(f"<{count}f", *values))
        return made

    def write(self, folder, tensors, config=True):
        shutil.rmtree(folder, ignore_errors=True)
        os.mkdir(folder)
        write_st(os.path.join(folder, "model.safetensors"), tensors)
        if config:
            shutil.copy(self.config, folder)
        return folder


def remove(path):
    if os.path.isdir(path):
        shutil.rmtree(path)
    elif os.path.exists(path):
        os.remove(path)


def changed(tensors, name, index, value=-7.0):
    dtype, shape, content = tensors[name]
    made = bytearray(content)
    made[4 * index:4 * index + 4] = struct.pack("<f", value)
    return {**tensors, name: (dtype, shape, bytes(made))}


def without(tensors, *names):
    return {name: t for name, t in tensors.items() if name not in names}


# ---- there and back -----------------------------------------------------------------------------------


def check_every_map():
    """From Hugging Face's names to each other side and back: the same tensors with the same bytes."""
    for name in sorted(os.listdir(CASES)):
        case = Case(name)
        if "hf" not in case.sides or not os.path.exists(case.config):
            continue
        source = case.write("hf", case.tensors("hf"))
        for side in case.sides:
            if side == "hf":
                continue
            there = Run("convert", source, "there.pt", "--to", f"torch:names={side}", "--config",
                        source, "--overwrite")
            if there.code == 2 and ("cannot hold this model" in there.err or
                                    f"does not say what side {side} calls it" in there.err):
                continue
            lost = "map-lost" in there.err + there.out
            if not expect(f"{name}: hf -> {side}", there.code in (0, 3 if lost else 0), there):
                continue
            back = Run("convert", "there.pt", "back", "--to", "hf", "--assets", source,
                       "--overwrite")
            if lost:
                continue
            expect(f"{name}: {side} -> hf", back.code == 0, back)
            same = Run("diff", source, "back")
            expect(f"{name}: hf -> {side} -> hf is the same", lost or same.code == 0, same)


# ---- errors that would be silent ---------------------------------------------------------------------


def refused(what, source, code, *said, to="torch:names=hf", more=()):
    run = Run("convert", source, "refused.pt", "--to", to, "--config", source, *more)
    expect(f"{what}: refused", run.code == code, run)
    for text in said:
        expect(f"{what}: says {text!r}", text in run.err, run)
    expect(f"{what}: nothing is written", not os.path.exists("refused.pt"))
    shutil.rmtree("refused.pt", ignore_errors=True)


def check_padding():
    case = Case("llama")
    good = case.tensors("mcore")
    name = "embedding.word_embeddings.weight"
    rows, columns = case.sides["mcore"][name][0]
    size = json.load(open(case.config, encoding="utf-8"))["vocab_size"]
    zeros = good
    for padded in (name, "output_layer.weight"):
        dtype, shape, content = zeros[padded]
        zeros = {**zeros, padded: (dtype, shape, content[:4 * size * columns] +
                                   bytes(4 * (rows - size) * columns))}
    exits(0, "convert", case.write("m", zeros), "p.pt", "--to", "torch:names=hf", "--config", "m")
    bad = changed(zeros, name, (size + 1) * columns + 3)
    refused("a padded row that is not zero", case.write("m", bad), 2, name, "must be zero",
            "[1, 3]")
    refused("a padded row that is not a number", case.write("m", changed(
        zeros, "output_layer.weight", rows * columns - 1, float("nan"))), 2, "output_layer.weight",
            "must be zero", f"[{rows - size - 1}, {columns - 1}]")
    refused("minus zero", case.write("m", changed(zeros, name, size * columns, -0.0)), 2,
            "must be zero", "[0, 0]")


def check_ties():
    case = Case("llama-tied")
    tensors = case.tensors("hf")
    embed = tensors["model.embed_tokens.weight"]
    both = {**tensors, "lm_head.weight": embed}
    exits(0, "convert", case.write("t", both), "t1.pt", "--to", "torch:names=torchtitan",
          "--config", "t")
    exits(0, "convert", case.write("t", tensors), "t2.pt", "--to", "torch:names=torchtitan",
          "--config", "t")
    exits(0, "diff", "t1.pt", "t2.pt")
    exits(0, "convert", "t2.pt", "t3", "--to", "hf", "--assets", "t")
    exits(0, "diff", "t", "t3")
    differ = changed(both, "lm_head.weight", 37)
    refused("tied tensors that differ", case.write("t", differ), 2, "lm_head.weight",
            "model.embed_tokens.weight", "first at [1, 5]", "--untie", to="torch:names=torchtitan")
    exits(0, "convert", "t", "t4", "--to", "hf:names=torchtitan", "--assets", "t", "--untie")
    exits(0, "convert", "t1.pt", "t5", "--to", "hf:names=torchtitan", "--assets", "t",
          "--from-names", "torchtitan")
    exits(1, "diff", "t4", "t5", say="1 differ")


def check_constants():
    case = Case("llama")
    good = case.tensors("vllm")
    size = json.load(open(case.config, encoding="utf-8"))["vocab_size"]
    for name, (dtype, shape, content) in list(good.items()):
        if shape[:1] == [128]:
            good[name] = (dtype, shape, content[:4 * size * shape[1]] +
                          bytes(4 * (128 - size) * shape[1]))
    exits(0, "convert", case.write("v", good), "v.pt", "--to", "torch:names=hf", "--config", "v",
          "--from-names", "vllm")
    scale = "model.layers.1.self_attn.attn._v_scale"
    refused("a constant of another value", case.write("v", changed(good, scale, 0, 0.5)), 2,
            scale, "is not the constant", more=("--from-names", "vllm"))


def patch(path, name, content):
    """Other bytes at the begin of one tensor of a safetensors file."""
    with open(path, "r+b") as file:
        size = struct.unpack("<Q", file.read(8))[0]
        begin = json.loads(file.read(size))[name]["data_offsets"][0]
        file.seek(8 + size + begin)
        file.write(content)


def check_copies():
    """A constant on one rank stands for none of the others."""
    case = Case("llama")
    source = case.write("hf", case.tensors("hf"))
    shutil.rmtree("v2", ignore_errors=True)
    exits(0, "convert", source, "v2", "--to", "vllm:tp=2", "--assets", source)
    scale = "model.layers.1.self_attn.attn._v_scale"
    patch(os.path.join("v2", "model-rank-1-part-0.safetensors"), scale, struct.pack("<f", 2.0))
    refused("a constant that differs on one rank", "v2", 2, scale, "copies that differ", to="hf")


def check_configuration():
    """Widths that are not those of the checkpoint. Head counts whose products are the same shapes
    cannot be told apart by shapes; nothing here can."""
    case = Case("llama")
    source = case.write("c", case.tensors("hf"))
    config = json.load(open(case.config, encoding="utf-8"))
    for change, said in (({"hidden_size": 64}, "but [100, 64] by config.json"),
                         ({"num_key_value_heads": 4, "num_attention_heads": 2}, "but [64, 32] by"),
                         ({"vocab_size": 101}, "but [101, 32] by"), ({"num_hidden_layers": 3}, "missing"),
                         ({"num_hidden_layers": 1}, "unknown"),
                         ({"intermediate_size": 25}, "but [25, 32] by")):
        with open("c/config.json", "w", encoding="utf-8") as file:
            json.dump({**config, **change}, file)
        refused(f"config {change}", source, 2, said, to="torch:names=torchtitan")
    for text, said in (("{", "config.json"), ("[1]", "is no JSON object"),
                       ('{"model_type": "lama"}', "there is no map for model_type \"lama\""),
                       ('{"model_type": 7}', "choose one with --map"),
                       ('{"model_type": "llama", "hidden_size": "wide"}', "let ")):
        with open("c/config.json", "w", encoding="utf-8") as file:
            file.write(text)
        refused(f"config {text}", source, 2, said, to="torch:names=torchtitan")


def check_configurations_differ():
    """Head counts whose products are the same: another configuration that is at hand tells."""
    case = Case("llama")
    source = case.write("source", case.tensors("hf"))
    os.makedirs("other", exist_ok=True)
    config = json.load(open(case.config, encoding="utf-8"))
    with open("other/config.json", "w", encoding="utf-8") as file:
        json.dump({**config, "num_attention_heads": 8, "num_key_value_heads": 4}, file)
    to = ("--to", "meta:tp=2", "--overwrite")
    said = "is 4 by this file, but 8 by the configuration that is used"
    for more in (("--config", "other"), ("--config", "other/config.json"), ("--assets", "other")):
        run = exits(0, "convert", source, "meta", *to, *more, say=said)
        expect(f"{more}: names the file", "source/config.json" in run.err + run.out, run)
    exits(0, "convert", source, "meta", *to, "--assets", source)
    run = exits(0, "convert", "meta", "back", "--to", "hf", "--assets", source, "--overwrite")
    expect("the same configuration", "is used" not in run.err + run.out, run)
    # what is copied beside the result is of another model
    shutil.copy("meta/params.json", "other/params.json")
    run = exits(0, "convert", source, "meta", *to, "--assets", "other", say=said)
    expect("of the assets", "other/params.json" in run.err + run.out, run)


def check_rotations():
    """Of scaled rotations Meta's files say Llama 3's alone; others would be computed as if plain."""
    case = Case("llama")
    config = json.load(open(case.config, encoding="utf-8"))
    for key, change in (("rope_parameters", {"rope_type": "linear", "factor": 4.0}),
                        ("rope_scaling", {"rope_type": "yarn"}), ("rope_scaling", {"type": "dynamic"})):
        source = case.write("source", case.tensors("hf"))
        with open("source/config.json", "w", encoding="utf-8") as file:
            json.dump({**config, key: change}, file)
        refused(f"{change}", source, 2, "cannot hold this model", to="meta:tp=2")
        exits(0, "convert", source, "ranks", "--to", "vllm:tp=2", "--overwrite")
    for change in ({"rope_type": "llama3"}, {"rope_type": "default"}, {"rope_theta": 500000.0}):
        with open("source/config.json", "w", encoding="utf-8") as file:
            json.dump({**config, "rope_parameters": change}, file)
        exits(0, "convert", source, "meta", "--to", "meta:tp=2", "--overwrite")


def check_experts():
    case = Case("mixtral")
    good = case.tensors("hf")
    gone = next(n for n in good if ".experts.2." in n and n.endswith("w2.weight"))
    other = gone.replace(".experts.2.", ".experts.12.")
    stacked = {side for side in case.sides if side != "hf"}
    for side in sorted(stacked):
        source = case.write("e", without(good, gone))
        refused(f"an expert is missing, to {side}", source, 2, gone, "missing",
                to=f"torch:names={side}", more=("--from-names", "hf"))
        renamed = {**without(good, gone), other: good[gone]}
        refused(f"an expert has another name, to {side}", case.write("e", renamed), 2, other,
                "unknown", to=f"torch:names={side}", more=("--from-names", "hf"))
    source = case.write("e", good)
    layer = re.sub(r"\.block.*|\.mlp.*", "", gone)
    for to in ("torch:names=vllm", "hf:names=vllm"):
        refused("one expert alone", source, 2, ".w2.weight", to=to, more=("--only", gone))
        refused("all but one expert", source, 2, gone, to=to, more=("--drop", gone))
    exits(0, "convert", source, "layer.pt", "--to", "torch:names=vllm", "--config", source, "--only",
          f"{layer}.*")
    exits(0, "convert", source, "layer", "--to", "hf:names=vllm", "--only", f"{layer}.*")
    exits(0, "diff", "layer.pt", "layer")
    twice = {**good, "model." + gone: good[gone]}
    refused("two names of one tensor", case.write("e", {**good, "module." + gone: good[gone]}), 2,
            gone, to="torch:names=vllm")
    refused("an unknown name", case.write("e", twice), 2, "model." + gone, to="torch:names=vllm",
            more=("--from-names", "hf"))


# ---- a map of one's own -------------------------------------------------------------------------------

RUN_MAP = """\
map: 1
name: run
let: {two: 2}
sides: {a: {}, b: {}}
tensors:
  - interleave:
      - {a: "{up,down}.weight", shape: [[6, 4], [4, 6]], b: {name: w, join: 0, groups: 2, pad: [16, _],
         rearrange: ["(two i) j -> (i two) j", "i j -> j i"]}}
      - {a: "{up,down}.bias", shape: [[6], [4]], b: {name: bias, join: 0, groups: two}}
  - repeat: {n: 2}
    tensors: [{b: "scale.{n}", shape: [2], fill: 1.0, dtype: float32, buffer: true}]
"""


def write_run(path, change=None):
    run = torch_file.training_run()
    if change is not None:
        change(run)
    torch_file.save(run, path)


def with_map(text=RUN_MAP):
    with open("run.yaml", "w", encoding="utf-8") as file:
        file.write(text)
    with open("names", "w", encoding="ascii") as file:
        file.write("up.weight\nup.bias\ndown.weight\ndown.bias\n")
    return "--map", "run.yaml"


def step(optimizer, i, base):
    optimizer["state"][i]["step"] = torch_file.Tensor(base=base)


def check_optimizer():
    """States follow joins, rearrangements and padding, and come back."""
    use = with_map()
    names = ("--param-names", "names")
    write_run("run.pt")
    exits(0, "convert", "run.pt", "named", "--to", "dcp:ranks=2,optimizer=nested", *names)
    for there in ("dcp:ranks=3,names=b", "torch:names=b"):
        remove("there")
        exits(0, "convert", "run.pt", "there", "--to", there, *use, *names, "--verify")
        for back in ("dcp:ranks=2,names=a", "torch:names=a"):
            remove("again")
            exits(0, "convert", "there", "again", "--to", back, *use)
            same = Run("diff", "named", "again", "--state")
            expect(f"{there}, {back}: the same, states too", same.code == 0, same)
    listing = Run("inspect", "again", "--json", "--tensors", "*").out
    places = re.findall(r'"name": ?"optimizer[^"]*step"', listing)
    expect("each parameter has its own step", len(places) == 4, listing[:300])


def check_optimizer_refused():
    use = with_map()
    more = (*use, "--param-names", "names")

    def case(what, change, *said):
        write_run("bad.pt", change)
        run = Run("convert", "bad.pt", "refused", "--to", "dcp:names=b", *more)
        expect(f"{what}: refused", run.code == 2, run)
        for text in said:
            expect(f"{what}: says {text!r}", text in run.err, run)
        expect(f"{what}: nothing is written", not os.path.exists("refused"))

    def groups(run):
        first, second = run["optimizer"]["param_groups"]
        first["params"], second["params"] = [0], [2, 1, 3]

    def half(run):
        del run["optimizer"]["state"][1]

    def frozen(run):
        run["optimizer"]["param_groups"][0]["params"] = [0]
        del run["optimizer"]["state"][1]

    def odd(run):
        for i in (0, 1):
            run["optimizer"]["state"][i]["row"] = torch_file.Tensor(3, base=5.0)

    case("steps that differ", lambda run: step(run["optimizer"], 1, 8.0),
         "optimizer: the states", "step\" differ, but belong to parameters that become one")
    case("different groups", groups, "are in different groups")
    case("one has a state and one has none", half, "some have a state, some have not")
    case("one is not trained", frozen)
    case("a state of another shape", odd, "down.weight", "neither its shape nor one element")

    def both_frozen(run):
        del run["optimizer"]["state"][2], run["optimizer"]["state"][3]

    write_run("fine.pt", both_frozen)
    exits(0, "convert", "fine.pt", "fine", "--to", "dcp:names=b", *more)


CHAIN_MAP = """\
map: 1
name: chain
sides: {a: {}, b: {}}
tensors:
  - {a: x, shape: [2, 3], b: {name: x, when: false}}
  - {a: {name: y, when: false}, shape: [2, 3], tie: {to: x}, b: {name: y, rearrange: "i j -> j i"}}
  - {a: z, shape: [2, 3], tie: {to: y}, b: {name: z, when: false}}
"""


def ramp(*shape, base=0.0):
    count = 1
    for n in shape:
        count *= n
    return ("F32", list(shape), struct.pack(f"<{count}f", *(base + i for i in range(count))))


def check_chain():
    """Of three tensors that are one the source lacks the middle one, and the target has it alone."""
    use = with_map(CHAIN_MAP)
    write_st("chain.safetensors", {"x": ramp(2, 3), "z": ramp(2, 3)})
    exits(0, "convert", "chain.safetensors", "y", "--to", "hf:names=b", *use)
    write_st("want.safetensors", {"y": ("F32", [3, 2], struct.pack("<6f", 0, 3, 1, 4, 2, 5))})
    exits(0, "diff", "y", "want.safetensors")
    exits(0, "convert", "y", "xz", "--to", "hf:names=a", *use)
    exits(0, "diff", "xz", "chain.safetensors")
    for name in ("x", "z"):
        write_st("one.safetensors", {name: ramp(2, 3)})
        remove("again")
        exits(0, "convert", "one.safetensors", "again", "--to", "hf:names=b", *use, "--from-names",
              "a")
        exits(0, "diff", "again", "want.safetensors")
    write_st("chain.safetensors", changed({"x": ramp(2, 3), "z": ramp(2, 3)}, "z", 4))
    exits(2, "convert", "chain.safetensors", "bad", "--to", "hf:names=b", *use, "--from-names", "a",
          say="are tied, but they differ, first at [1, 1]")
    # the parameter is the one that the target has
    torch_file.save({"model": {"x": torch_file.Tensor(2, 3)}, "optimizer": {
        "state": {0: {"step": torch_file.Tensor(), "exp_avg": torch_file.Tensor(2, 3, base=50.0)}},
        "param_groups": [{"lr": 0.5, "params": [0]}]}}, "chain.pt")
    with open("names", "w", encoding="ascii") as file:
        file.write("x\n")
    exits(0, "convert", "chain.pt", "tied", "--to", "dcp:names=b", *use, "--param-names", "names",
          "--from-names", "a")
    exits(0, "cat", "tied", "optimizer.state.y.exp_avg", say="53")


OPTIONAL_MAP = """\
map: 1
name: optional
sides: {a: {}, b: {}}
tensors:
  - {a: x, shape: [2], b: w}
  - repeat: {n: 3}
    optional: true
    tensors: [{a: "m.{n}", shape: [2], b: {name: m, stack: 0}}]
"""


def check_optional():
    """Turns that are there together or not at all, on a side that stacks them."""
    use = with_map(OPTIONAL_MAP)
    turns = {f"m.{n}": ramp(2, base=10.0 * n) for n in range(3)}
    for some in ({}, turns):
        write_st("some.safetensors", {"x": ramp(2), **some})
        remove("there")
        remove("back")
        exits(0, "convert", "some.safetensors", "there", "--to", "hf:names=b", *use)
        exits(0, "convert", "there", "back", "--to", "hf:names=a", *use)
        exits(0, "diff", "some.safetensors", "back")
    write_st("some.safetensors", {"x": ramp(2), **without(turns, "m.1")})
    exits(2, "convert", "some.safetensors", "bad", "--to", "hf:names=b", *use, say="needs \"m.1\"")
    write_st("some.safetensors", {"w": ramp(2), "m": ramp(2, 2)})
    exits(2, "convert", "some.safetensors", "bad", "--to", "hf:names=a", *use, say="[3, 2]")


def check_sides():
    """Whose names they are is told by all of them, and never guessed."""
    use = with_map("map: 1\nname: s\nsides: {a: {}, b: {}, c: {}}\ntensors:\n"
                   "  - {a: x, shape: [2], b: x, c: z}\n  - {a: y, shape: [2], b: y, c: w}\n")
    write_st("s.safetensors", {"x": ramp(2), "y": ramp(2)})
    exits(2, "convert", "s.safetensors", "out", "--to", "hf:names=c", *use,
          say="the names fit the sides a and b of map s; say which with --from-names")
    write_st("s.safetensors", {"x": ramp(2)})
    exits(2, "convert", "s.safetensors", "out", "--to", "hf:names=c", *use,
          say="1 of its tensors are missing, first \"y\"")
    write_st("s.safetensors", {"z": ramp(2), "w": ramp(2), "v": ramp(2)})
    exits(2, "convert", "s.safetensors", "out", "--to", "hf:names=a", *use,
          say="the nearest is c; 1 names are unknown to it, first \"v\"")
    use = with_map("map: 1\nname: s\nlet: {n: 0}\nsides: {a: {when: n > 0}, b: {when: n > 1}}\n"
                   "tensors: [{a: x, shape: [n], b: x}]\n")
    exits(2, "convert", "s.safetensors", "out", "--to", "hf:names=a", *use,
          say="no side of map s has tensors of such a model")
    exits(2, "convert", "s.safetensors", "out", "--to", "hf:names=a", *use, "--from-names", "a",
          say="side a of map s cannot hold this model: it can when n > 0")
    expect("nothing is written", not os.path.exists("out"))


def digest(folder):
    made = hashlib.sha256()
    for root, _, files in sorted(os.walk(folder)):
        for name in sorted(files):
            made.update(name.encode())
            with open(os.path.join(root, name), "rb") as file:
                for block in iter(lambda: file.read(1 << 20), b""):
                    made.update(block)
    return made.hexdigest()


def write_ramps(path, names, rows, columns):
    """Written row by row: what this process holds would count as its children's."""
    size = rows * columns * 4
    header = json.dumps({n: {"dtype": "F32", "shape": [rows, columns],
                             "data_offsets": [i * size, i * size + size]}
                         for i, n in enumerate(names)}).encode()
    with open(path, "wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        for row in range(len(names) * rows):
            file.write(struct.pack(f"<{columns}f", *range(row, row + columns)))


def check_threads():
    """The same bytes whatever the number of threads, and little memory whatever the tensor's size."""
    with_map("map: 1\nname: big\nsides: {a: {}, b: {}}\ntensors:\n"
             "  - {a: '{x,y}', shape: [6144, 2048], b: {name: z, join: 0, groups: 3072, pad: [12352, _],\n"
             "     rearrange: '(i two) j -> (i two) j'}}\n".replace(
                 "(i two) j -> (i two) j", "i j -> i j"))
    os.makedirs("big", exist_ok=True)
    write_ramps("big/model.safetensors", ("x", "y"), 6144, 2048)
    seen = set()
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    for threads in (1, 2, 7, 16):
        exits(0, "convert", "big", "out", "--to", "hf:names=b", "--map", "run.yaml", "--threads",
              str(threads), "--memory", "16MiB", "--overwrite")
        seen.add(digest("out"))
    most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    expect("1, 2, 7 and 16 threads write the same bytes", len(seen) == 1)
    expect(f"a tensor of 96 MiB in {most // 1024} MiB", most <= max(before, 64 * 1024))
    exits(0, "convert", "out", "again", "--to", "hf:names=a", "--map", "run.yaml", "--overwrite")
    exits(0, "diff", "big", "again")
    for folder in ("big", "out", "again"):
        shutil.rmtree(folder)


def check_map_files():
    case = Case("llama")
    source = case.write("f", case.tensors("hf"))
    exits(2, "convert", source, "x.pt", "--to", "torch:names=meta", "--map", "no-such",
          say="no map is called so; there are deepseek-v3, ")
    exits(2, "convert", source, "x.pt", "--to", "torch:names=meta", "--map", "./no-such.yaml",
          say="no-such.yaml")
    exits(2, "convert", source, "x.pt", "--to", "torch:names=mistral", say="side")
    exits(2, "convert", source, "x.pt", "--to", "torch:names=meta", "--from-names", "metta",
          say="no side \"metta\"")
    with_map("map: 1\nname: x\nsides: {hf: {}}\ntensors: [{hf: 'a.{n}', shape: [1]}]\n")
    exits(2, "convert", source, "x.pt", "--to", "torch:names=hf", "--map", "run.yaml",
          say="run.yaml:4:20: no repeat around the rule defines \"n\"")
    expect("nothing is written", not os.path.exists("x.pt"))


if __name__ == "__main__":
    check_threads()
    check_every_map()
    check_padding()
    check_ties()
    check_constants()
    check_copies()
    check_configuration()
    check_configurations_differ()
    check_rotations()
    check_experts()
    check_chain()
    check_optional()
    check_sides()
    check_optimizer()
    check_optimizer_refused()
    check_map_files()
    _cli.finish()
