"""Cases from the field (A to S), at the command: what people met with other tools, made small."""
import json
import os
import random
import resource
import shutil
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "harness")]
import _cli  # noqa: E402
import _flat  # noqa: E402
from _cli import Run, exits, expect  # noqa: E402
from _inputs import floats, torch_save  # noqa: E402
from llama_file import llama, write  # noqa: E402

EMBED = "model.embed_tokens.weight"


def values(folder, name):
    """(shape, elements) of a tensor, or what the run says."""
    run = Run("cat", folder, name, "--json")
    if run.code != 0:
        return run.err
    document = json.loads(run.out)
    return document["shape"], document["values"]


def expect_values(folder, name, shape, elements):
    found, elements = values(folder, name), list(elements)
    same = not isinstance(found, str) and found[0] == list(shape) and len(found[1]) == len(elements) and \
        all(abs(a - b) <= 1e-6 * abs(b) for a, b in zip(found[1], elements))
    expect(f"{folder}: {name} is {shape}", same, str(found)[:400])


def convert(source, target, *more, code=0, say=None):
    if os.path.isfile("out"):
        os.remove("out")
    shutil.rmtree("out", ignore_errors=True)
    run = exits(code, "convert", source, "out", "--to", target, *more, say=say)
    expect(f"{source} to {target}: nothing under the name of a refused one",
           code == 0 or not os.path.exists("out"))
    return run


def optimizer(states, names=None):
    """An optimizer's state dict with these states {key: {state: tensor}}."""
    return {"state": {key: dict(s) for key, s in states.items()},
            "param_groups": [{"lr": 0.5, "params": names or list(states)}]}


# ---- B: flat against full, and values of ranks ------------------------------------------------------


def check_factor():
    # B7, B3: a quarter of the elements, as one of four ranks has them flattened
    write("quarter", shapes={EMBED: [10]})
    run = exits(1, "verify", "quarter", "--config", "quarter", say="1/4 of the elements")
    expect("quarter: what it is", "flat or sharded values" in run.err + run.out, run)
    # A11: what is written as a finished model is held against the model
    run = exits(2, "convert", "quarter", "finished", "--to", "hf", "--config", "quarter")
    expect("quarter: not written", not os.path.exists("finished"), run)
    expect("quarter: named", EMBED in run.err, run)


def check_scopes():
    # B8: what is of one rank is carried under its name, whatever the number of ranks is then
    state = {"model": {"w": floats(range(8), [4, 2])},
             "dataloader": {f"dp_rank_{r}": bytes([r] * 8) for r in range(4)}}
    torch_save("b8.pt", state)
    for ranks in (2, 6):
        convert("b8.pt", f"dcp:ranks={ranks}")
        run = exits(0, "inspect", "out", "--values")
        for r in range(4):
            expect(f"dp_rank_{r} at {ranks} ranks", f"dataloader.dp_rank_{r} = " in run.out, run)


def check_success():
    # B1: done means that it is there and can be read; words for targets are what they are
    state = {"a": floats([1], [1]), "b": floats([2], [1]), "c": floats([3], [1])}
    torch_save("b1.pt", state)
    for target in ("hf", "torch", "ddp", "dcp", "fsdp2:dp=2"):
        convert("b1.pt", target)
        exits(0, "verify", "out")
    for target in ("HF", "Torch", "nonsense", "fsdp1:dp=2,mode=LOCAL", "fsdp1:dp=2,mode=other", ""):
        convert("b1.pt", target, code=2)
    # B2: names with what the loader wants before them
    convert("b1.pt", "hf", "--add-prefix", "model.")
    expect_values("out", "model.a", [1], [1])
    os.rename("out", "b2")
    convert("b2", "hf", "--strip-prefix", "model.")
    expect_values("out", "a", [1], [1])
    # B4: what is on one side only is found, on both
    torch_save("b4.pt", {"a": state["a"], "b": state["b"], "d": floats([3], [1])})
    run = exits(1, "diff", "b1.pt", "b4.pt", "--json")
    found = {d.get("name_a", d.get("name_b")): d["kind"] for d in json.loads(run.out)["differences"]}
    expect("b4: both", found == {"c": "only-a", "d": "only-b"}, run)
    # J2: the same tensors under two prefixes
    torch_save("j2.pt", {f"model.{name}": tensor for name, tensor in state.items()})
    exits(0, "diff", "b1.pt", "j2.pt")


# ---- J1, M3: names in wrappers ----------------------------------------------------------------------


def check_wrappers():
    # M3: the optimizer's names are cleaned as the model's are
    inner, outer = "layers.0.w", "_fsdp_wrapped_module.layers.0._checkpoint_wrapped_module.w"
    state = {"model": {inner: floats(range(6), [3, 2]), "b": floats(range(3), [3])},
             "optimizer": optimizer({outer: {"exp_avg": floats(range(10, 16), [3, 2])},
                                     "b": {"exp_avg": floats(range(3), [3])}})}
    torch_save("m3.pt", state)
    for target in ("fsdp2:dp=2", "dcp:ranks=3,optimizer=flat"):
        convert("m3.pt", target)
        expect_values("out", f"model.{inner}", [3, 2], range(6))
        expect_values("out", f"optimizer.state.{inner}.exp_avg", [3, 2], range(10, 16))
    # J1: as whole parts; a module that is really called so stays; two that become one are refused
    torch_save("j1.pt", {"_orig_mod.module.layers.0._checkpoint_wrapped_module.w": floats([1], [1]),
                         "_orig_mod.module.my_module.v": floats([2], [1])})
    convert("j1.pt", "hf")
    expect_values("out", "layers.0.w", [1], [1])
    expect_values("out", "my_module.v", [1], [2])
    torch_save("j1.pt", {"module.a": floats([1], [1]), "b": floats([2], [1])})
    convert("j1.pt", "hf")
    expect_values("out", "module.a", [1], [1])
    torch_save("j1.pt", {"_orig_mod.a": floats([1], [1]), "a": floats([2], [1])})
    convert("j1.pt", "hf", code=2, say="_orig_mod.a")


# ---- M: optimizers ----------------------------------------------------------------------------------


def check_states():
    # M7: states that are no copy of the parameter's shape are carried as they are
    state = {"model": {"w": floats(range(12), [4, 3])},
             "optimizer": optimizer({"w": {"exp_avg_sq_row": floats(range(4), [4]),
                                           "exp_avg_sq_col": floats(range(3), [3])}})}
    torch_save("m7.pt", state)
    convert("m7.pt", "fsdp2:dp=2")
    expect_values("out", "optimizer.state.w.exp_avg_sq_row", [4], range(4))
    expect_values("out", "optimizer.state.w.exp_avg_sq_col", [3], range(3))
    # M2, M10: numbers become names where one order fits, never by position alone
    def numbered(groups):
        number = sum(map(len, groups))
        torch_save("m2.pt", {"model": {name: floats([1] * 4, [2, 2]) for name in "abc"},
                             "optimizer": {"state": {i: {"exp_avg": floats([i] * 4, [2, 2])} for i in range(number)},
                                           "param_groups": [{"params": group} for group in groups]}})
    numbered([[0, 1, 2]])
    convert("m2.pt", "fsdp2:dp=2")
    for name, number in (("a", 0), ("b", 1), ("c", 2)):
        expect_values("out", f"optimizer.state.{name}.exp_avg", [2, 2], [number] * 4)
    for groups, said in (([[0, 2], [1]], "both fit all shapes"), ([[0, 1, 2, 3]], "OPT-8")):
        numbered(groups)
        convert("m2.pt", "fsdp2:dp=2", code=2, say=said)
    numbered([[0, 2], [1]])
    with open("numbers.txt", "w", encoding="utf-8") as file:
        file.write("0 a\n1 b\n2 c\n")
    convert("m2.pt", "fsdp2:dp=2", "--param-names", "numbers.txt")
    for name, number in (("a", 0), ("b", 1), ("c", 2)):
        expect_values("out", f"optimizer.state.{name}.exp_avg", [2, 2], [number] * 4)
    # M11: what is there is listed
    state["lr_scheduler"] = {"last_epoch": 3}
    state["step"] = 7
    torch_save("m11.pt", state)
    run = exits(0, "inspect", "m11.pt", "--values")
    for text in ("1 of the model", "2 of the optimizer", "lr_scheduler.last_epoch = 3", "step = 7"):
        expect(f"m11: {text}", text in run.out, run)


# ---- G: tied weights --------------------------------------------------------------------------------


def check_tied():
    # G2: two that differ are not made one; G4: two that are equal are, where the configuration ties
    head = "lm_head.weight"
    write("tied", tie_word_embeddings=True)
    same = [float(v) for v in range(40)]
    state = {name: floats(range(_flat.count(shape)), shape) for name, shape in llama().items()}
    state[head] = floats(same, [10, 4])
    torch_save("g4.pt", state)
    os.makedirs("assets")
    shutil.copy("tied/config.json", "assets")
    convert("g4.pt", "hf", "--assets", "assets", say="tied-kept")
    convert("g4.pt", "hf", "--map", "llama", "--config", "assets", "--assets", "assets")
    run = exits(0, "inspect", "out", "--tensors", "*")
    expect("g4: stored once", head not in run.out and EMBED in run.out, run)
    state[head] = floats(same[:-1] + [77], [10, 4])
    torch_save("g2.pt", state)
    run = convert("g2.pt", "hf", "--assets", "assets", code=2, say="first at [9, 3]")
    expect("g2: both are named", EMBED in run.err and head in run.err, run)
    convert("g2.pt", "hf", "--assets", "assets", "--untie")
    expect_values("out", head, [10, 4], same[:-1] + [77])


def check_heads():
    # G6: a second head that differs by one value is a tensor of its own
    torch_save("g6.pt", {"lm_head.weight": floats(range(8), [4, 2]),
                         "mtp.head.weight": floats([0, 1, 2, 3, 4, 5, 6, 8], [4, 2])})
    convert("g6.pt", "hf")
    expect_values("out", "mtp.head.weight", [4, 2], [0, 1, 2, 3, 4, 5, 6, 8])
    # K4: numbers that are none, which the source had not
    torch_save("k4.pt", {"lm_head.weight": floats([0, 1, float("nan"), 3, 4, 5, 6, 7], [4, 2])})
    exits(0, "verify", "k4.pt", "--level", "values", say="nan")
    run = exits(1, "diff", "k4.pt", "g6.pt", "--only", "lm_head*")
    expect("k4: where", "[1, 0]" in run.out, run)


# ---- U1: random states of ranks ---------------------------------------------------------------------


def check_random_states():
    folder = "u1/checkpoint-3"
    os.makedirs(folder)
    torch_save(f"{folder}/pytorch_model_fsdp.bin", {"w": floats(range(8), [4, 2])})
    for r in range(4):
        torch_save(f"{folder}/rng_state_{r}.pth", {"cpu": floats([r] * 4, [4]), "python": (3, r)})
    _flat.os.makedirs(f"{folder}/logs")
    with open(f"{folder}/trainer_state.json", "w", encoding="utf-8") as file:
        json.dump({"global_step": 3}, file)
    for ranks in (2, 8):
        convert("u1", f"fsdp2:dp={ranks}", say="other-folder")
        for r in range(4):
            expect_values("out", f"rng_state_{r}.cpu", [4], [r] * 4)


# ---- S: resources -----------------------------------------------------------------------------------


def limited(kind, amount):
    return lambda: resource.setrlimit(kind, (amount, amount))


def check_resources():
    # S3: two thousand files of one tensor, with 256 descriptors
    os.makedirs("s3")
    order = list(range(2000))
    random.Random(5).shuffle(order)
    for i in order:
        _cli.write_st(f"s3/part{i}.safetensors", {f"w.{i}": ("U8", [2], bytes([i % 251, i % 13]))})
    exits(0, "convert", "s3", "s3-out", "--to", "hf", "--quiet",
          preexec_fn=limited(resource.RLIMIT_NOFILE, 256))
    for i in (0, 999, 1999):
        found = values("s3-out", f"w.{i}")
        expect(f"s3: w.{i}", found == ([2], [i % 251, i % 13]), found)
    # S2: a hundred thousand tensors in one file
    tensors = {f"layers.{i}.w": ("U8", [1], b"x") for i in range(100000)}
    os.makedirs("s2")
    _cli.write_st("s2/model.safetensors", tensors)
    exits(0, "convert", "s2", "s2-out", "--to", "dcp:ranks=4", "--quiet")


def main():
    for check in (check_factor, check_scopes, check_success, check_wrappers, check_states, check_tied,
                  check_heads, check_random_states, check_resources):
        check()
    _cli.finish()


if __name__ == "__main__":
    main()
