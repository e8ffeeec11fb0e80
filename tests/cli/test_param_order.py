"""Optimizers that number their parameters get names from the model's map and configuration, where the
checkpoint does not tell them."""
import json
import os
import shutil
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "harness")]
import _cli  # noqa: E402
from _cli import Run, exits, expect  # noqa: E402
from llama_file import MOMENT, config, llama, write_run  # noqa: E402

EMBED, HEAD = "model.embed_tokens.weight", "lm_head.weight"


def put_config(name, **change):
    os.makedirs(name, exist_ok=True)
    with open(f"{name}/config.json", "w", encoding="utf-8") as file:
        json.dump(config(**change), file)


def check_moments(folder, names):
    """Each parameter has its own moments."""
    shapes = llama()
    for i, name in enumerate(shapes):
        if name not in names:
            continue
        tensor = f"optimizer.state.{name}.exp_avg"
        run = Run("cat", folder, f"{tensor}[" + ",".join(["0:1"] * len(shapes[name])) + "]",
                  "--json")
        values = json.loads(run.out).get("values")
        expect(f"{folder}: {tensor}", values == [MOMENT * (i + 1)], run)


def convert(source, *more, code=0, say=None):
    shutil.rmtree("out", ignore_errors=True)
    return exits(code, "convert", source, "out", "--to", "dcp:ranks=2,optimizer=nested", *more,
                 say=say)


def check_tied():
    """A copy of the embedding that shares no storage: which of the two the optimizer has, and in
    which group, shapes do not tell."""
    names = list(llama())
    trained = [n for n in names if n != HEAD]
    write_run("tied.pt", names, [trained[1:], [EMBED]])
    convert("tied.pt", code=2, say=f'may be "{EMBED}" or "{HEAD}"')
    run = convert("tied.pt", code=2, say="--config")
    expect("tied: nothing is written", not os.path.exists("out"), run)
    put_config("tied", tie_word_embeddings=True)
    convert("tied.pt", "--config", "tied", say="the names are the model's, in the order of its map")
    check_moments("out", trained)
    exits(0, "inspect", "out", "--tensors", f"optimizer.state.{HEAD}.*")
    # the wrong configuration says that both are trained
    put_config("untied")
    convert("tied.pt", "--config", "untied", code=2, say="may be")


def check_unordered():
    """An index that several ranks made keeps no order of the module: q and o have one shape."""
    names = list(llama())
    write_run("ordered.pt", names, [names])
    exits(0, "convert", "ordered.pt", "numbers", "--to",
          "dcp:ranks=1,replicate=2,optimizer=keep")
    convert("numbers", code=2, say="the order of the model's parameters is not known here")
    put_config("untied")
    convert("numbers", "--config", "untied", say="in the order of its map")
    check_moments("out", names)
    # the map is found by its name, or beside the checkpoint; the names of the user go first
    convert("numbers", "--config", "untied/config.json", "--map", "llama")
    with open("names.txt", "w", encoding="utf-8") as file:
        file.write("\n".join(names))
    convert("numbers", "--config", "untied", "--param-names", "names.txt",
            say="the names are those of --param-names")
    check_moments("out", names)


def check_shuffled():
    """A file whose module is sorted by name, as some tools save it: the order in it is not that of
    the parameters."""
    names = list(llama())
    write_run("sorted.pt", sorted(names), [names], prefix="module.")
    put_config("untied")
    convert("sorted.pt", "--config", "untied", say="in the order of its map")
    check_moments("out", names)


def check_groups():
    """Matrices and vectors in groups of their own, as trainers make them."""
    names = list(llama())
    shapes = llama()
    write_run("groups.pt", sorted(names), [[n for n in names if len(shapes[n]) == 2],
                                      [n for n in names if len(shapes[n]) == 1]])
    put_config("untied")
    convert("groups.pt", "--config", "untied", say="in the order of its map")
    check_moments("out", names)
    # and on to the names of another side
    shutil.rmtree("titan", ignore_errors=True)
    exits(0, "convert", "groups.pt", "titan", "--to", "dcp:names=torchtitan", "--config", "untied")
    run = Run("cat", "titan", "optimizer.state.norm.weight.exp_avg[0:1]", "--json")
    expect("titan: moments", json.loads(run.out).get("values") ==
           [MOMENT * (names.index("model.norm.weight") + 1)], run)


def check_unknown():
    """What a configuration does not tell is said, and does no harm where it is not needed."""
    names = list(llama())
    write_run("ordered.pt", names, [names])
    put_config("bert", model_type="bert")
    run = convert("ordered.pt", "--config", "bert", say="the order of the model's parameters is not known")
    expect("unknown: the order of the file is taken", "in the one order that fits" in run.out, run)
    put_config("small", num_hidden_layers=2)
    convert("ordered.pt", "--config", "small", say="is not known: the tensors are of no side")
    convert("ordered.pt", "--config", "nowhere", code=2, say="No such file")
    # named ones need none
    convert("ordered.pt")
    shutil.rmtree("again", ignore_errors=True)
    put_config("untied")
    run = exits(0, "convert", "out", "again", "--to", "dcp", "--config", "untied")
    expect("named: nothing is said", "param-names-unused" not in run.out + run.err, run)
    check_moments("again", names)


check_tied()
check_unordered()
check_shuffled()
check_groups()
check_unknown()
_cli.finish()
