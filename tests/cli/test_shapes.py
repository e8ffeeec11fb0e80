"""--shapes is taken by every command that opens a checkpoint, and --emit-shapes writes what it takes;
the document of specs/shapes.md is one."""
import json
import math
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "harness")]
import _cli  # noqa: E402
import llama_file  # noqa: E402
import torch_file  # noqa: E402
from _cli import Run, exits, expect  # noqa: E402


def put(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def entries(document, key):
    """The list under the key, by a reader of its own."""
    part = re.search(rf"^{key}:\n((?:- .*\n)+)", document, re.M)
    return {name: json.loads(sizes) for name, sizes in
            re.findall(r"^- (\S+): (\[.*\])$", part.group(1) if part else "", re.M)}


def check_emitted():
    shapes = llama_file.llama()
    names = list(shapes)
    llama_file.write_run("run.pt", names, [names], prefix="module.")
    run = exits(0, "inspect", "run.pt", "--emit-shapes")
    found = entries(run.out, "tensors")
    expect("a state dict: names, sizes and order", list(found.items()) == list(shapes.items()), run)
    put("run.yaml", run.out)
    # the model tells that all of them are parameters
    os.makedirs("model", exist_ok=True)
    put("model/config.json", json.dumps(llama_file.config(tie_word_embeddings=True)))
    for source in ("model", "model/config.json"):
        run = exits(0, "inspect", "run.pt", "--emit-shapes", "--config", source)
        expect("with a model: parameters", list(entries(run.out, "parameters")) == names, run)
        expect("with a model: ties", "ties:\n  lm_head.weight: model.embed_tokens.weight\n" in run.out,
               run)
    # a published model has the order of its map, with a configuration alone
    llama_file.write("hf")
    run = exits(0, "inspect", "hf", "--emit-shapes")
    expect("weights: the order of the map",
           list(entries(run.out, "parameters").items()) == list(shapes.items()), run)
    os.remove("hf/config.json")
    exits(2, "inspect", "hf", "--emit-shapes",
          say="the order in which the model registers its parameters is not known")
    exits(2, "inspect", "hf", "--emit-shapes", "--config", "nowhere", say="nowhere")
    # sorted by a tool, which the model shows
    llama_file.write_run("sorted.pt", sorted(names)[:12], [sorted(names)[:12]])
    exits(2, "inspect", "sorted.pt", "--emit-shapes", "--config", "model",
          say="one of them is not in the order of registration")


def check_json():
    spec, codes = _cli.spec_keys(), _cli.severities_and_codes()
    document = _cli.check_document(Run("inspect", "run.pt", "--emit-shapes", "--json"), spec, codes)
    with open("run.yaml", encoding="utf-8") as file:
        expect("json: the same document", document.get("shapes") == file.read(), document)
    run = Run("inspect", "hf", "--emit-shapes", "--json")
    document = _cli.check_document(run, spec, codes)
    expect("json: refused", run.code == 2 and document["error"]["status"] == "UNSUPPORTED", run)
    exits(2, "inspect", "run.pt", "--emit-shapes", "--emit-layout", say="are two files; ask for one")


def check_unused():
    """Where nothing is flat it does no harm, and is not looked at; every command takes it."""
    for line in ("inspect run.pt", "verify run.pt", "hash run.pt", "diff run.pt run.pt",
                 "cat run.pt model.module.model.norm.weight", "plan run.pt --to hf",
                 "convert run.pt out --to hf"):
        verb, *rest = line.split()
        run = exits(0, verb, *rest, "--shapes", "nowhere")
        expect(f"{line}: unused is said", verb == "cat" or "[shapes-unused]" in run.out + run.err, run)


def check_flat():
    """The order of the document is the one in the row; what is wrong with it is said at its place."""
    shapes = {"z.w": [2, 3], "a.w": [3, 2], "m.b": []}
    torch_file.save({"_flat_param": torch_file.Tensor(13)}, "flat.pt")
    document = "shapes: 1\nparameters:\n" + "".join(f"- {n}: {s}\n" for n, s in shapes.items())
    put("s.yaml", document)
    for verb in ("inspect", "verify", "hash"):
        exits(0, verb, "flat.pt")
        exits(0, verb, "flat.pt", "--shapes", "s.yaml")
    exits(2, "convert", "flat.pt", "weights", "--to", "hf", say="give --shapes")
    exits(0, "convert", "flat.pt", "weights", "--to", "hf", "--shapes", "s.yaml", "--verify")
    at = 0
    for name, sizes in shapes.items():
        run = Run("cat", "weights", name, "--json")
        count = math.prod(sizes)
        expect(f"{name}: elements from {at}",
               json.loads(run.out).get("values") == list(range(at, at + count)), run)
        at += count
    exits(0, "diff", "flat.pt", "weights", "--shapes", "s.yaml")
    run = exits(0, "cat", "flat.pt", "a.w[0]", "--shapes", "s.yaml")
    with open(os.path.join(_cli.SOURCE_DIR, "specs", "shapes.md"), encoding="utf-8") as file:
        example = re.search(r"```yaml\n(.*?)```", file.read(), re.S).group(1)
    bad = [(example, "its 6 parameters have 2113600 elements by their shapes, and it has 13"),
           (example.replace("[64]", "[sixty]"), "bad.yaml:8:23: a size must be a whole number"),
           (example.replace("parameters:", "parametres:"), "bad.yaml:2:1: unknown key"),
           (example.replace("- ", "  "), "bad.yaml:3:3: parameters is a mapping, which has no order"),
           (example.replace("lm_head.weight: model.embed_tokens.weight", "a: model.embed"),
            'bad.yaml:9:11: "model.embed" is not there'),
           (example.replace("align: 1", "align: 0"), "bad.yaml:12:8: align is")]
    for text, says in bad:
        put("bad.yaml", text)
        run = exits(2, "convert", "flat.pt", "out-bad", "--to", "hf", "--shapes", "bad.yaml", say=says)
        expect("nothing is written", not os.path.exists("out-bad"), run)
    exits(2, "convert", "flat.pt", "out-bad", "--to", "hf", "--shapes", "nowhere",
          say="--shapes: nowhere")


def check_example():
    """The document of the specification describes a row that is made of it."""
    with open(os.path.join(_cli.SOURCE_DIR, "specs", "shapes.md"), encoding="utf-8") as file:
        example = re.search(r"```yaml\n(.*?)```", file.read(), re.S).group(1)
    put("example.yaml", example)
    listed = dict(re.findall(r"^- (\S+): (\[.*\])$", example, re.M))
    sizes = {name: math.prod(json.loads(s)) for name, s in listed.items()}
    layers = [sum(n for name, n in sizes.items() if f".layers.{i}." in name) for i in range(2)]
    torch_file.save({"model": {
        "_flat_param": torch_file.Tensor(sum(sizes.values()) - sum(layers)),
        **{f"model.layers.{i}._flat_param": torch_file.Tensor(layers[i]) for i in range(2)}}},
        "example.pt")
    run = exits(0, "inspect", "example.pt", "--shapes", "example.yaml", "--json")
    found = {t["name"].removeprefix("model.", ): t["shape"] for t in json.loads(run.out)["tensors"]}
    expect("example: its parameters", {n: json.loads(s) for n, s in listed.items()}.items() <=
           found.items(), run)
    expect("example: the other name", "lm_head.weight" in found, run)


check_emitted()
check_json()
check_unused()
check_flat()
check_example()
_cli.finish()
