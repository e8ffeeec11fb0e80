"""Cases from the field (A5, M1) about flat parameters: what is in them is not in the files."""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "harness")]
import _cli  # noqa: E402
from _cli import exits, expect  # noqa: E402
from _flat import chunk, floats, save_ranks, sharded  # noqa: E402
from test_field import convert, expect_values  # noqa: E402
from test_field_ranks import fresh  # noqa: E402

NAMED = """shapes: 1
parameters:
- a: [3, 3]
- b: [5]
use_orig_params: false
"""


def raw(elements, rank, world):
    """The 1-D states of one row as this rank's optimizer has them: padded at the end."""
    lo, hi = chunk(len(elements), world, rank)
    step = -(-len(elements) // world)
    return floats([*elements[lo:hi], *[0.0] * (step - (hi - lo))], [step])


def flat_rank(rank, world, total=14):
    return {"_flat_param": sharded(list(range(total)), [total], rank, world, room=-(-total // world) -
                                   (chunk(total, world, rank)[1] - chunk(total, world, rank)[0]))}


def flat_optimizer(rank, world, total=14):
    """exp_avg = i, exp_avg_sq = i / 10, step 7."""
    row = list(range(total))
    return {"state": {0: {"exp_avg": raw(row, rank, world),
                          "exp_avg_sq": raw([i / 10 for i in row], rank, world), "step": floats([7.0], [])}},
            "param_groups": [{"lr": 0.5, "params": [0]}]}


def write_flat(folder, world, total=14):
    save_ranks(fresh(folder), world, lambda r: flat_rank(r, world, total))
    save_ranks(folder, world, lambda r: flat_optimizer(r, world, total),
               name="optim_world_size_{world}_rank_{rank}.pt")


def check_flat():
    write_flat("a5", 4)
    with open("a5.yaml", "w", encoding="utf-8") as file:
        file.write(NAMED)
    convert("a5", "hf", "--shapes", "a5.yaml")
    expect_values("out", "a", [3, 3], range(9))
    expect_values("out", "b", [5], range(9, 14))
    # with the optimizer, for FSDP2
    convert("a5", "fsdp2:dp=3", "--shapes", "a5.yaml")
    expect_values("out", "model.a", [3, 3], range(9))
    expect_values("out", "optimizer.state.a.exp_avg", [3, 3], range(9))
    expect_values("out", "optimizer.state.b.exp_avg_sq", [5], [i / 10 for i in range(9, 14)])
    for name in ("a", "b"):
        expect_values("out", f"optimizer.state.{name}.step", [], [7.0])
    # without them it is known what is missing
    run = convert("a5", "hf", code=2, say="--shapes")
    expect("a5: what is missing", all(t in run.err for t in ("names", "shapes", "order")), run)
    exits(0, "verify", "a5")
    # sizes that do not add up, and names without an order
    for change, said in (("[5]", "14"), ("[3, 3]", "14")):
        with open("wrong.yaml", "w", encoding="utf-8") as file:
            file.write(NAMED.replace(change, "[7, 4]"))
        convert("a5", "hf", "--shapes", "wrong.yaml", code=2, say=said)
    # B7: the shapes of a model of another size: by how much
    with open("wrong.yaml", "w", encoding="utf-8") as file:
        file.write(NAMED.replace("[3, 3]", "[6, 6]").replace("[5]", "[20]"))
    convert("a5", "hf", "--shapes", "wrong.yaml", code=2, say="4 times")
    with open("wrong.yaml", "w", encoding="utf-8") as file:
        file.write("shapes: 1\nparameters: {a: [3, 3], b: [5]}\n")
    convert("a5", "hf", "--shapes", "wrong.yaml", code=2, say="order")


def check_world():
    # M1: 22 values of 2 ranks, 11 each, become 8 x 3 with padding, and come back
    write_flat("m1", 2, 22)
    with open("m1.yaml", "w", encoding="utf-8") as file:
        file.write(NAMED.replace("[5]", "[13]"))
    for name, more in (("m1-dcp", ""), ("m1-8", ",files=ranks")):
        convert("m1", "fsdp1:dp=8,mode=local" + more, "--shapes", "m1.yaml")
        os.rename("out", fresh(name))
        exits(0, "inspect", name, "--tensors", "*_flat_param", say="model._flat_param  float32 [22]  8 pieces")
    expect_values("m1-8", "optimizer.state.0.exp_avg", [24], [*range(22), 0, 0])
    convert("m1-8", "fsdp1:dp=2,mode=local,files=ranks", "--shapes", "m1.yaml")
    os.rename("out", fresh("m1-2"))
    exits(0, "diff", "m1", "m1-2", "--state")
    for folder in ("m1", "m1-dcp", "m1-8", "m1-2"):
        convert(folder, "fsdp2:dp=2", "--shapes", "m1.yaml")
        expect_values("out", "model.b", [13], range(9, 22))
        expect_values("out", "optimizer.state.a.exp_avg", [3, 3], range(9))
        expect_values("out", "optimizer.state.b.exp_avg", [13], range(9, 22))
        expect_values("out", "optimizer.state.b.exp_avg_sq", [13], [i / 10 for i in range(9, 22)])
        expect_values("out", "optimizer.state.a.step", [], [7.0])
        os.rename("out", fresh(folder + "-out"))
        exits(0, "diff", "m1-out", folder + "-out", "--state")


def main():
    check_flat()
    check_world()
    _cli.finish()


if __name__ == "__main__":
    main()
