"""Writes maps/CASE/sides.txt: the tensors of each side of the map for CASE's configuration, in order.

    make_maps.py      (wants numpy and PyYAML)

Made by the second reading of maps (tests/interop/map_reference.py), so that what the library makes of
a configuration is held against code that it shares nothing with. A line: name, shape, and which of
b(uffer), c(onstant), o(ptional) it is.
"""

import json
import os
import sys

import numpy

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "interop"))

import map_reference  # noqa: E402

FLAGS = (("buffer", "b"), ("fill", "c"), ("optional", "o"))


def map_of(config):
    return config.get("model_type", "llama").replace("_", "-")


def lines(model, side):
    empty = {atom: numpy.zeros(facts["shape"], bool) for atom, facts in model.atoms.items()}
    for name, members in model.tensors[side].items():
        facts = model.atoms[members[0][2]]
        shape = ",".join(map(str, model.make(side, name, empty).shape))
        flags = "".join(letter for key, letter in FLAGS if key in facts)
        yield f"{name} [{shape}] {flags}".rstrip()


def main():
    for case in sorted(os.listdir(os.path.join(HERE, "maps"))):
        folder = os.path.join(HERE, "maps", case)
        name = "params.json" if os.path.exists(os.path.join(folder, "params.json")) else "config.json"
        with open(os.path.join(folder, name), encoding="utf-8") as text:
            config = json.load(text)
        side = "meta" if name == "params.json" else None
        model = map_reference.Map(map_reference.embedded(map_of(config)), config, side)
        with open(os.path.join(folder, "sides.txt"), "w", encoding="utf-8") as out:
            for each, facts in model.sides.items():
                if not model.scope.value(facts.get("when", True)):
                    continue
                out.write(f"side {each}\n")
                out.writelines(f"{line}\n" for line in lines(model, each))


if __name__ == "__main__":
    main()
