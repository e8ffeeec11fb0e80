"""verify --config: a checkpoint held against the model that its configuration describes. The cases
are what people met: layers or experts that are missing, values of one rank in a finished export, an
output head that is missing or differs."""
import json
import os
import shutil
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "harness")]
import _cli  # noqa: E402
from _cli import Run, exits, expect  # noqa: E402
from llama_file import llama, mixtral, write  # noqa: E402

EMBED, HEAD, NORM = "model.embed_tokens.weight", "lm_head.weight", "model.norm.weight"


def verify(folder, code, *more, config=None):
    """The document of the run, and its findings as {(code, tensor): message}."""
    run = exits(code, "verify", folder, "--json", "--config", config or folder, *more)
    document = _cli.check_document(run, SPEC, CODES)
    found = {(f["code"], f["tensor"]): f["message"] for f in document["findings"]}
    expect(f"{folder}: findings are distinct", len(found) == len(document["findings"]), run)
    return document, found


def counts(document):
    model = document["model"]
    return model["known"], model["missing"], model["unknown"], model["misshapen"]


def check_good():
    write("good")
    document, found = verify("good", 0)
    expect("good: nothing", not found, str(found))
    expect("good: the model", document["model"] == {"map": "llama", "side": "hf", "known": 30,
                                                    "missing": 0, "unknown": 0, "misshapen": 0},
           str(document))
    exits(0, "verify", "good", "--config", "good/config.json", say="side hf, 30 tensors known")
    shutil.copy("good/config.json", "another-name.json")
    exits(0, "verify", "good", "--config", "another-name.json", say="side hf, 30 tensors known")
    exits(0, "verify", "good", "--map", "llama", say="side hf, 30 tensors known")
    run = exits(0, "verify", "good")
    expect("good: held against nothing unasked", "known" not in run.out, run)
    # the same weights of another framework
    exits(0, "convert", "good", "dcp", "--to", "dcp:ranks=3")
    document, found = verify("dcp", 0, config="good")
    expect("dcp: the model", counts(document) == (30, 0, 0, 0), str(document))


def check_missing():
    # B13: shards of the last layers are absent
    write("layers", llama(24), without=[f"model.layers.{n}." for n in range(20, 24)],
          num_hidden_layers=24)
    document, found = verify("layers", 1)
    expect("layers: one line", list(found) == [("map-missing", "model.layers.{20-23}.**")],
           str(found))
    expect("layers: counted", counts(document) == (183, 36, 0, 0), str(document))
    message = found["map-missing", "model.layers.{20-23}.**"]
    expect("layers: in numbers", "36 tensors" in message and "608 elements" in message, message)
    # I1: the experts of one rank
    name = "model.layers.{0-1}.block_sparse_moe.experts.{2-3}.**"
    write("experts", mixtral(2), model_type="mixtral", num_hidden_layers=2, num_local_experts=4)
    document, found = verify("experts", 1)
    expect("experts: one line", list(found) == [("map-missing", name)], str(found))
    expect("experts: in numbers", "12 tensors" in found["map-missing", name], str(found))
    # scattered ones, of which no part is missing whole
    write("some", without=["model.layers.0.mlp.up_proj", "model.layers.2.mlp.up_proj"])
    _, found = verify("some", 1)
    expect("some: one line", list(found) == [("map-missing", "model.layers.{0,2}.mlp.up_proj.weight")],
           str(found))


def check_unknown():
    # J6: a slip of the pen is one missing, one unknown, and what was meant
    write("slip", rename={NORM: "model.nrom.weight"})
    document, found = verify("slip", 1)
    expect("slip: both", set(found) == {("map-missing", NORM), ("map-unknown", "model.nrom.weight")},
           str(found))
    expect("slip: meant", f'did you mean "{NORM}"?' in found["map-unknown", "model.nrom.weight"],
           str(found))
    expect("slip: counted", counts(document) == (29, 1, 1, 0), str(document))
    # a configuration of fewer layers
    write("more", num_hidden_layers=2)
    _, found = verify("more", 1)
    expect("more: one line", list(found) == [("map-unknown", "model.layers.2.**")], str(found))
    expect("more: no hint at what is there", "did you mean" not in str(found), str(found))
    # nothing is known: the first side
    write("other", {"a.weight": [2], "b.weight": [2]})
    document, _ = verify("other", 1)
    expect("other: of no side", document["model"]["side"] == "hf" and counts(document)[0] == 0 and
           counts(document)[2] == 2, str(document))
    # J1: parts that wrappers add are taken off
    write("wrapped", rename={name: f"module._orig_mod.{name}" for name in llama()})
    document, _ = verify("wrapped", 0)
    expect("wrapped: known", counts(document) == (30, 0, 0, 0), str(document))


def check_shapes():
    # A11: flattened, halved, emptied
    write("flat", shapes={EMBED: [40], NORM: [2], HEAD: [0]})
    document, found = verify("flat", 1)
    expect("flat: all three", set(found) == {("map-shape", EMBED), ("map-shape", NORM),
                                             ("map-shape", HEAD)}, str(found))
    for (_, name), message in found.items():
        expect(f"flat: {name}", "flat or sharded values, not a finished export" in message, message)
    expect("flat: sizes", "the shape is [40], but [10, 4] by config.json ([V, H], map llama, line "
           in found["map-shape", EMBED], str(found))
    expect("flat: factor", "1/2 of the elements" in found["map-shape", NORM], str(found))
    expect("flat: counted", counts(document) == (30, 0, 0, 3), str(document))
    # B3: half of each, from one rank
    write("half", shapes={"q_proj.weight": [2, 4]})
    _, found = verify("half", 1)
    name = "model.layers.{0-2}.self_attn.q_proj.weight"
    expect("half: one line", list(found) == [("map-shape", name)], str(found))
    expect("half: how much", "3 tensors: " in found["map-shape", name] and
           "[A * D, H]" in found["map-shape", name] and
           "1/2 of the elements" in found["map-shape", name], str(found))
    # those of different sizes are told apart
    write("mixed", shapes={"0.mlp.gate_proj.weight": [4, 4], "1.mlp.gate_proj.weight": [5, 4]})
    _, found = verify("mixed", 1)
    expect("mixed: two lines", set(found) == {("map-shape", "model.layers.0.mlp.gate_proj.weight"),
                                              ("map-shape", "model.layers.1.mlp.gate_proj.weight")},
           str(found))
    expect("mixed: what divides and what does not", "1/2 of the elements" in
           found["map-shape", "model.layers.0.mlp.gate_proj.weight"] and
           "is it the configuration of this model?" in
           found["map-shape", "model.layers.1.mlp.gate_proj.weight"], str(found))
    write("double", shapes={NORM: [8]})
    _, found = verify("double", 1)
    expect("double: the factor", "2 times the elements" in str(found), str(found))
    # H2: a resize that wrote a vocabulary of 0
    write("empty-vocabulary", vocab_size=0)
    _, found = verify("empty-vocabulary", 1)
    expect("empty: disagrees", "the shape is [10, 4], but [0, 4] by config.json" in
           found["map-shape", EMBED] and ("map-shape", HEAD) in found, str(found))


def check_ties():
    # G1: the head is not there
    write("headless", without=[HEAD])
    _, found = verify("headless", 1)
    expect("headless: missing", list(found) == [("map-missing", HEAD)], str(found))
    write("tied", without=[HEAD], tie_word_embeddings=True)
    _, found = verify("tied", 0)
    expect("tied: noted", "stored once" in found["tied", EMBED], str(found))
    write("neither", without=[EMBED, HEAD], tie_word_embeddings=True)
    document, found = verify("neither", 1)
    expect("neither: one is missing", list(found) == [("map-missing", EMBED)] and
           counts(document) == (28, 1, 0, 0), str(document))
    # both, equal and not
    write("both", tie_word_embeddings=True)
    document, found = verify("both", 0)
    expect("both: noted", "both are stored" in found["tied", HEAD], str(found))
    expect("both: known", counts(document) == (30, 0, 0, 0), str(document))
    write("stale", first={HEAD: 1}, tie_word_embeddings=True)
    _, found = verify("stale", 1)
    expect("stale: where", "first at [0, 0]" in found["tied-differ", HEAD] and
           EMBED in found["tied-differ", HEAD], str(found))
    exits(1, "verify", "stale", "--config", "stale", "--level", "digest", say="tied-differ")
    exits(0, "verify", "stale", "--config", "stale", "--level", "coverage")
    write("untied", first={HEAD: 1})
    verify("untied", 0)


def check_nothing_to_hold():
    write("bert", model_type="bert")
    document, found = verify("bert", 4)
    expect("bert: said", 'no map for model_type "bert"' in found["no-map", ""], str(found))
    expect("bert: verdict", document["verdict"] == "unchecked" and "model" not in document,
           str(document))
    exits(4, "verify", "bert", "--config", "bert", say="UNCHECKED: there is no model")
    exits(0, "verify", "bert", "--config", "bert", "--map", "llama")
    exits(4, "verify", "good", "--config", "good", "--section", "nowhere", say="--section nowhere")
    exits(2, "verify", "good", "--config", "nowhere", say="No such file")
    exits(2, "verify", "good", "--map", "bert", say="no map is called so")
    with open("broken.json", "w", encoding="utf-8") as file:
        file.write("{")
    exits(2, "verify", "good", "--config", "broken.json", say="broken.json")


def check_run():
    """Each checkpoint of a run is held against it."""
    for step in (1, 2):
        shutil.copytree("good", f"run/step-{step}")
    exits(0, "verify", "run", "--config", "good", say="newest complete: step-2")
    write("run/step-2", without=[HEAD])
    exits(1, "verify", "run", "--config", "good", say="newest complete: step-1")
    exits(2, "verify", "run", "--config", "bert", say="there is no model to hold it against")


def check_convert():
    """What verify tells, convert refuses, in the same words."""
    for folder, code, word in (("slip", "map-unknown", "unknown"), ("half", "map-shape", "[2, 4]"),
                               ("layers", "map-missing", "missing")):
        run = exits(2, "convert", folder, "out", "--to", "dcp:names=torchtitan", "--from-names",
                    "hf", "--config", folder, "--json")
        document = json.loads(run.out)
        _, found = verify(folder, 1)
        said = {(f["code"], f["tensor"]): f["message"] for f in document["findings"]}
        expect(f"convert {folder}: the same findings", found.items() <= said.items(), run)
        expect(f"convert {folder}: the error", word in document["error"]["message"], run)
        expect(f"convert {folder}: {code}", code in str(said), run)
        expect(f"convert {folder}: nothing is written", not os.path.exists("out"), run)


SPEC, CODES = _cli.spec_keys(), _cli.severities_and_codes()
check_good()
check_missing()
check_unknown()
check_shapes()
check_ties()
check_nothing_to_hold()
check_run()
check_convert()
_cli.finish()
