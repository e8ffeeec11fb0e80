"""Cases from the field (A, B, M) with a file a rank: FSDP's shards, made small, at the command."""
import os
import random
import shutil
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "harness")]
import _cli  # noqa: E402
from _cli import exits, expect  # noqa: E402
from _flat import dtensor, floats, save, save_ranks, sharded  # noqa: E402
from test_field import convert, expect_values, optimizer, values  # noqa: E402

W = [8, 4]
RAMP = list(range(32))


def fresh(folder):
    shutil.rmtree(folder, ignore_errors=True)
    return folder


# ---- A1, A2: shards of three forms; replicas and shards by what is recorded --------------------------


def check_forms():
    save_ranks(fresh("a1-sharded"), 4, lambda r: {"w": sharded(RAMP, W, r, 4)})
    save_ranks(fresh("a1-dtensor"), 4, lambda r: {"w": dtensor(RAMP, W, r, [4], [0])})
    for folder in ("a1-sharded", "a1-dtensor"):
        for target in ("hf", "fsdp2:dp=3,files=ranks", "fsdp2:dp=3"):
            convert(folder, target)
            expect_values("out", "w" if target == "hf" else "model.w", W, RAMP)
    os.rename("out", fresh("a1-dcp"))
    convert("a1-dcp", "hf")
    expect_values("out", "w", W, RAMP)
    os.remove("a1-dcp/.metadata")
    convert("a1-dcp", "hf", code=2, say=".metadata is missing")
    exits(0, "verify", "a1-sharded")
    exits(0, "verify", "a1-dtensor", "--level", "values")


def check_replicas():
    ones = [1.0] * 16

    def state(rank, buffer=3.5):
        return {"p": dtensor(list(range(48)), [16, 3], rank, [8], [0]), "buf": floats([buffer], [1]),
                "step": floats([7.0], []), "norm": dtensor(ones, [16], rank, [8], [0])}
    save_ranks(fresh("a2"), 8, state)
    convert("a2", "hf")
    for name, shape, elements in (("p", [16, 3], range(48)), ("buf", [1], [3.5]), ("step", [], [7.0]),
                                  ("norm", [16], ones)):
        expect_values("out", name, shape, elements)
    # a plain value that one rank has otherwise is no shard, and no matter of choice
    save_ranks(fresh("a2"), 8, lambda r: state(r, 3.5 + (r == 5)))
    run = exits(1, "verify", "a2")
    expect("a2: named", "buf" in run.err + run.out and "5" in run.err + run.out, run)
    convert("a2", "hf", code=2, say="buf")


# ---- A4, B10: which ranks there are -----------------------------------------------------------------


def rows_of(rank):
    return {"w": sharded(list(range(24)), [12, 2], rank, 12)}


def check_order():
    order = list(range(12))
    random.Random(3).shuffle(order)
    save_ranks(fresh("a4"), 12, rows_of, order=order)
    convert("a4", "hf")
    expect_values("out", "w", [12, 2], range(24))
    # 101 ranks whose numbers are padded to two digits, so that _100 sorts before _11
    order = list(range(101))
    random.Random(4).shuffle(order)
    save_ranks(fresh("a4-101"), 101, lambda r: {"w": sharded(list(range(202)), [101, 2], r, 101)},
               name="model_rank_{rank:02}.pt", order=order)
    convert("a4-101", "hf")
    expect_values("out", "w", [101, 2], range(202))
    # a swapped pair, a missing one, one twice, and ranks of another run
    swapped = fresh("a4-swapped")
    save_ranks(swapped, 12, lambda r: rows_of({3: 7, 7: 3}.get(r, r)))
    exits(1, "verify", swapped, say="rank_3.pt: it stands for rank 3, and rank 7 saved it")
    convert(swapped, "hf", code=2, say="rank")
    missing = shutil.copytree("a4", fresh("a4-missing"))
    os.remove(f"{missing}/model_world_size_12_rank_5.pt")
    exits(1, "verify", missing, say="of rank 5 of 12 there is no file")
    convert(missing, "hf", code=2, say="5")
    twice = shutil.copytree("a4", fresh("a4-twice"))
    shutil.copy(f"{twice}/model_world_size_12_rank_5.pt", f"{twice}/model_world_size_12_rank_05.pt")
    exits(1, "verify", twice, say="rank_05")
    convert(twice, "hf", code=2, say="rank_05")
    save_ranks("a4-missing", 2, lambda r: {"w": sharded(list(range(24)), [12, 2], r, 2)})
    run = convert("a4-missing", "hf", code=2)
    expect("b10: both world sizes", "2" in run.err and "12" in run.err, run)


# ---- A7: uneven and empty shards ---------------------------------------------------------------------


def check_uneven():
    for form in (sharded, lambda v, s, r, n: dtensor(v, s, r, [n], [0])):
        save_ranks(fresh("a7"), 4, lambda r, form=form: {"b": form(list(range(5)), [5], r, 4)})
        convert("a7", "hf")
        expect_values("out", "b", [5], range(5))
        save_ranks(fresh("a7"), 32, lambda r, form=form: {"h": form(list(range(1024)), [8, 128], r, 32)})
        convert("a7", "hf")
        expect_values("out", "h", [8, 128], range(1024))
    # parts that do not add up: a rank whose part is one row short
    def short(rank):
        part = dtensor(RAMP, W, rank, [4], [0])
        if rank == 2:
            part.args[3][1]["_local_tensor"] = floats(RAMP[16:20], [1, 4])
        return {"w": part}
    save_ranks(fresh("a7"), 4, short)
    run = exits(1, "verify", "a7")
    expect("a7: tensor, found, expected", all(t in run.err + run.out for t in ("w", "[1, 4]", "[2, 4]")), run)
    convert("a7", "hf", code=2, say="w")


# ---- A9: copies --------------------------------------------------------------------------------------


def check_copies():
    def state(rank, change=0):
        elements = [0, 1, 2, 3, 4, 5, 6, 7]
        if rank == 2:
            elements[1] += change
        return {"w": dtensor(elements, [4, 2], rank, [2, 2], [None, 0])}
    save_ranks(fresh("a9"), 4, state)
    convert("a9", "hf")
    expect_values("out", "w", [4, 2], range(8))
    save_ranks(fresh("a9"), 4, lambda r: state(r, 0.5))
    run = exits(1, "verify", "a9", "--level", "values")
    said = run.err + run.out
    expect("a9: tensor, place, ranks", all(t in said for t in ("w", "[0, 1]", "rank_0", "rank_2")), run)
    convert("a9", "hf", code=2, say="[0, 1]")


# ---- B15, and one rank of another step ---------------------------------------------------------------


def check_migration():
    def state(rank):
        return {"w": sharded(RAMP, W, rank, 4), "v": sharded(list(range(6)), [3, 2], rank, 4)}

    def moments(rank, step=7.0):
        return {"state": {i: {"exp_avg": sharded([x + 100 for x in range(n)], shape, rank, 4),
                              "step": floats([step], [])}
                          for i, (n, shape) in enumerate(((32, W), (6, [3, 2])))},
                "param_groups": [{"lr": 0.5, "params": [0, 1]}]}
    save_ranks(fresh("b15"), 4, state)
    save_ranks("b15", 4, moments, name="optim_world_size_{world}_rank_{rank}.pt")
    convert("b15", "fsdp2:dp=2")
    expect_values("out", "model.w", W, RAMP)
    expect_values("out", "optimizer.state.w.exp_avg", W, [x + 100 for x in range(32)])
    expect_values("out", "optimizer.state.v.exp_avg", [3, 2], [x + 100 for x in range(6)])
    expect_values("out", "optimizer.state.v.step", [], [7.0])
    # the optimizer of one rank is a step further
    save_ranks("b15", 4, lambda r: moments(r, 7.0 + (r == 2)), name="optim_world_size_{world}_rank_{rank}.pt")
    exits(1, "verify", "b15", say='optim_world_size_4_rank_2.pt: "optimizer.state.0.step": the copy')
    convert("b15", "fsdp2:dp=2", code=2, say="step")
    # likewise where steps are plain numbers
    def counted(rank):
        state = moments(rank)
        for one in state["state"].values():
            one["step"] = 7 + (rank == 2)
        return state
    save_ranks("b15", 4, counted, name="optim_world_size_{world}_rank_{rank}.pt")
    exits(1, "verify", "b15", say="rank 2 was at 8, and the first rank at 7")
    convert("b15", "fsdp2:dp=2", code=2, say="different saves")


# ---- accelerate: files of ranks beside other parts ----------------------------------------------------


def check_accelerate():
    save_ranks(fresh("acc"), 4, lambda r: {"w": sharded(RAMP, W, r, 4)}, name="pytorch_model_fsdp_rank{rank}.bin")
    save("acc", "scheduler.bin", {"last_epoch": 3})
    for r in range(4):
        save("acc", f"random_states_{r}.pkl", {"step": 7, "seed": floats([r], [1])})
    save("acc", "optimizer.bin", optimizer({"w": {"exp_avg": floats([x + 9 for x in RAMP], W)}}))
    convert("acc", "fsdp2:dp=2", say="parts of one checkpoint")
    expect_values("out", "model.w", W, RAMP)
    expect_values("out", "optimizer.state.w.exp_avg", W, [x + 9 for x in RAMP])
    expect_values("out", "random_states_3.seed", [1], [3])
    convert("acc", "hf")
    expect_values("out", "w", W, RAMP)
    expect("acc: the model alone", isinstance(values("out", "random_states_0.seed"), str))


def main():
    for check in (check_forms, check_replicas, check_order, check_uneven, check_copies, check_migration,
                  check_accelerate):
        check()
    _cli.finish()


if __name__ == "__main__":
    main()
