"""A second reading of maps and layouts (specs/notation.md) with numpy: slow, small, for judging the first.

It shares no code with the library. Arrays in, arrays out: between a side's tensors and the atoms of a
map, and between a side's tensors and what each rank of its layout holds.
"""

import functools
import itertools
import math
import os
import re

import numpy as np
import yaml

TOKEN = re.compile(r"\s*(?:(\d+\.\d*|\d+)|([A-Za-z_]\w*)|('[^']*'|\"[^\"]*\")|(\?\?|==|!=|<=|>=|//|[-+*/%<>()\[\],.]))")
LEVELS = [("??",), ("or",), ("and",), ("not",), ("==", "!=", "<", "<=", ">", ">=", "in", "not in"),
          ("+", "-"), ("*", "/", "//", "%")]
FUNCTIONS = {"ceil": lambda a, b: -(-a // b) * b, "int": int, "min": min, "max": max, "len": len}


def divided(a, b):
    if isinstance(a, int) and isinstance(b, int):
        assert a % b == 0, f"{a} / {b}"
        return a // b
    return a / b


BINARY = {"==": lambda a, b: a == b, "!=": lambda a, b: a != b, "<": lambda a, b: a < b,
          "<=": lambda a, b: a <= b, ">": lambda a, b: a > b, ">=": lambda a, b: a >= b,
          "in": lambda a, b: a in b, "not in": lambda a, b: a not in b, "+": lambda a, b: a + b,
          "-": lambda a, b: a - b, "*": lambda a, b: a * b, "/": divided, "//": lambda a, b: a // b,
          "%": lambda a, b: a % b}
LAZY = {"??": lambda a, b, f: b(f) if (left := a(f)) is None else left,
        "or": lambda a, b, f: a(f) or b(f), "and": lambda a, b, f: a(f) and b(f)}


class Parser:
    """Makes a function of a text; the function is given what finds the value of a name."""

    def __init__(self, text):
        self.tokens, at = [], 0
        while at < len(text):
            found = TOKEN.match(text, at)
            assert found, f"{text!r} at {at}"
            self.tokens.append(found.group(0).strip())
            at = found.end()
        self.function = self.level(0)
        assert not self.tokens, f"left over: {self.tokens}"

    def take(self, *wanted):
        if "not in" in wanted and self.tokens[:2] == ["not", "in"]:
            self.tokens[:2] = ["not in"]
        return self.tokens.pop(0) if self.tokens and self.tokens[0] in wanted else None

    def level(self, n):
        if n == len(LEVELS):
            if not self.take("-"):
                return self.operand()
            inner = self.level(n)
            return lambda f: -inner(f)
        if LEVELS[n] == ("not",) and self.take("not"):
            inner = self.level(n)
            return lambda f: not inner(f)
        left = self.level(n + 1)
        while (operator := self.take(*LEVELS[n])) is not None:
            left = self.both(operator, left, self.level(n + 1))
        return left

    @staticmethod
    def both(operator, left, right):
        if operator in LAZY:
            return lambda f: LAZY[operator](left, right, f)
        return lambda f: BINARY[operator](left(f), right(f))

    def operand(self):
        token = self.tokens.pop(0)
        if token == "(":
            inner, _ = self.level(0), self.tokens.remove(")")
            return inner
        if token == "[":
            return self.listed("]")
        if token in ("true", "false", "none"):
            return lambda f: {"true": True, "false": False, "none": None}[token]
        if not token[0].isalpha():
            value = token[1:-1] if token[0] in "'\"" else float(token) if "." in token else int(token)
            return lambda f: value
        if token in FUNCTIONS and self.take("("):
            given = self.listed(")")
            return lambda f: FUNCTIONS[token](*given(f))
        path = []
        while self.take("."):
            path.append(self.tokens.pop(0))
        return lambda f: functools.reduce(lambda value, key: (value or {}).get(key), path, f(token))

    def listed(self, end):
        values = []
        while not self.take(end):
            values.append(self.level(0))
            self.take(",")
        return lambda f: [value(f) for value in values]


class Scope:
    def __init__(self, lets, config, outer=None):
        self.lets, self.config, self.outer = lets, config, outer

    def find(self, name):
        if name in self.lets:
            return self.value(self.lets[name])
        if self.outer:
            return self.outer.find(name)
        assert name == "config", f"nothing defines {name!r}"
        return self.config

    def value(self, text):
        if isinstance(text, list):
            return [self.value(item) for item in text]
        return text if isinstance(text, (bool, int, float)) else Parser(str(text)).function(self.find)

    def inner(self, lets):
        return Scope(lets, None, self)

    def name(self, pattern):
        return re.sub(r"\{(\w+)\}", lambda m: str(self.find(m.group(1))), pattern)


def parts_of(pattern):
    """The names of "x{a,b}y", in order."""
    found = re.search(r"\{([^{}]*,[^{}]*)\}", pattern)
    if not found:
        return [pattern]
    return [pattern[:found.start()] + part + pattern[found.end():] for part in found.group(1).split(",")]


def rearrange(array, text, scope, reverse=False):
    """As einops, for names whose sizes the scope knows; one of a group may be unknown."""
    sides = [re.findall(r"\(([^)]*)\)|(\S+)", side) for side in text.split("->")]
    sides = [[(group or single).split() for group, single in side] for side in sides]
    if reverse:
        sides.reverse()
    sizes = {}
    for group, length in zip(sides[0], array.shape, strict=True):
        for name in group:
            try:
                sizes[name] = scope.find(name)
            except AssertionError:
                unknown = name
        known = math.prod(sizes[name] for name in group if name in sizes)
        if any(name not in sizes for name in group):
            sizes[unknown] = length // known
        assert math.prod(sizes[name] for name in group) == length, (text, group, length)
    flat = [list(itertools.chain(*side)) for side in sides]
    spread = array.reshape([sizes[name] for name in flat[0]])
    moved = spread.transpose([flat[0].index(name) for name in flat[1]])
    return moved.reshape([math.prod(sizes[name] for name in group) for group in sides[1]])


class Map:
    def __init__(self, path, config, side=None, axes=None):
        with open(path, encoding="utf-8") as file:
            self.map = yaml.safe_load(file)
        self.sides = self.map["sides"]
        lets = dict(self.map.get("let", {}))
        if side:
            lets.update(self.sides[side].get("let", {}))
        self.scope = Scope(lets, config).inner(axes or {})
        self.atoms, self.tensors = {}, {name: {} for name in self.sides}
        self.ties, self.lost = {}, {name: [] for name in self.sides}
        self.walk(self.map["tensors"], self.scope, [], {})

    # ---- what there is ----------------------------------------------------------------------------

    def walk(self, entries, scope, loops, given):
        for entry in entries:
            if not scope.value(entry.get("when", True)):
                continue
            if "repeat" in entry:
                (variable, bounds), = entry["repeat"].items()
                first, last = bounds if isinstance(bounds, list) else (0, bounds)
                for value in range(scope.value(first), scope.value(last)):
                    inner, turn = scope.inner({variable: value}).inner(entry.get("let", {})), [*loops, value]
                    optional = {"optional": True, "turn": tuple(turn)} if entry.get("optional") else given
                    self.walk(entry["tensors"], inner, turn, optional)
            elif "interleave" in entry:
                rules = [rule for rule in entry["interleave"] if scope.value(rule.get("when", True))]
                for i in range(max((len(self.rule_parts(rule)) for rule in rules), default=0)):
                    for rule in rules:
                        self.add(rule, scope, loops, i, given)
            else:
                for i in range(len(self.rule_parts(entry))):
                    self.add(entry, scope, loops, i, given)

    def canonical(self, rule):
        return next(key for key in rule if key in self.sides)

    def spelled(self, rule, side):
        value = rule.get(side)
        return {"name": value} if isinstance(value, str) and value != "drop" else value

    def rule_parts(self, rule):
        return parts_of(self.spelled(rule, self.canonical(rule))["name"])

    def add(self, rule, scope, loops, part, given):
        parts = self.rule_parts(rule)
        atom, shape = scope.name(parts[part]), rule["shape"]
        if shape and isinstance(shape[0], list):
            shape = shape[part]
        assert atom not in self.atoms, atom
        self.atoms[atom] = {**given, **{k: rule[k] for k in ("fill", "dtype", "optional", "buffer") if k in rule},
                            "shape": tuple(scope.value(shape))}
        if "tie" in rule and scope.value(rule["tie"].get("when", True)):
            self.ties[atom] = rule["tie"]["to"]
        for side in self.sides:
            here = self.spelled(rule, side)
            if here is None or here == "drop" or not scope.value(here.get("when", True)):
                self.lost[side].append(atom)
                continue
            names = parts_of(here["name"])
            name = scope.name(names[part] if len(names) > 1 else names[0])
            self.tensors[side].setdefault(name, []).append((loops, part, atom, here, scope))

    # ---- tensors of a side and atoms -----------------------------------------------------------------

    def make(self, side, name, atoms):
        rule, scope = self.tensors[side][name][0][3:]
        turns = {}  # of repeats that the name does not tell apart: they are stacked
        for loops, part, atom, _, _ in self.tensors[side][name]:
            turns.setdefault(tuple(loops), []).append(self.forward(atoms[atom], rule, part, scope))
        made = [self.joined(arrays, rule, scope) for arrays in turns.values()]
        assert len(made) == 1 or "stack" in rule, name
        whole = np.stack(made, rule["stack"]) if "stack" in rule else made[0]
        for axis, size in enumerate(rule.get("pad", [])):
            if size != "_":
                width = [(0, 0)] * whole.ndim
                width[axis] = (0, scope.value(size) - whole.shape[axis])
                whole = np.pad(whole, width)
        return whole

    @staticmethod
    def order_of(rule, part):
        order = rule.get("rearrange", "_")
        return order[part] if isinstance(order, list) else order

    def forward(self, array, rule, part, scope):
        order = self.order_of(rule, part)
        return array if order == "_" else rearrange(array, order, scope)

    @staticmethod
    def joined(arrays, rule, scope):
        if "join" not in rule:
            array, = arrays
            return array
        axis, groups = rule["join"], scope.value(rule.get("groups", 1))
        runs = [np.split(array, groups, axis) for array in arrays]
        return np.concatenate([run[g] for g in range(groups) for run in runs], axis)

    def to_side(self, side, atoms):
        """{name: array} of the side, in order; atoms without a value that the map knows are made."""
        have = dict(atoms)
        for atom, facts in self.atoms.items():
            if atom not in have and "fill" in facts:
                have[atom] = np.full(facts["shape"], facts["fill"], facts.get("dtype"))
        return {name: self.make(side, name, have) for name, members in self.tensors[side].items()
                if all(member[2] in have for member in members)}

    def index_of(self, side):
        """{name: array of 1 + the number of the element in the row of all atoms (0: padding)}."""
        first, numbered = 1, {}
        for atom, facts in self.atoms.items():
            count = math.prod(facts["shape"])
            numbered[atom] = np.arange(first, first + count).reshape(facts["shape"])
            first += count
        return {name: self.make(side, name, numbered) for name in self.tensors[side]}, numbered

    def from_side(self, side, tensors):
        """{atom: array}: undone through the numbers of elements, so not by reversing anything."""
        indexes, numbered = self.index_of(side)
        total = sum(math.prod(facts["shape"]) for facts in self.atoms.values())
        atoms = {}
        for name, index in indexes.items():
            if name not in tensors:
                continue
            assert tensors[name].shape == index.shape, (name, tensors[name].shape, index.shape)
            row = np.zeros(total + 1, tensors[name].dtype)
            row[index.ravel()] = tensors[name].ravel()
            assert not np.any(tensors[name][index == 0]), f"{name}: padding is not zero"
            for _, _, atom, _, _ in self.tensors[side][name]:
                atoms[atom] = row[numbered[atom]]
        turns = {self.atoms[atom].get("turn") for atom in atoms}
        for atom, other in self.ties.items():
            if atom not in atoms and other in atoms and self.atoms[atom].get("turn") in turns | {None}:
                atoms[atom] = atoms[other]
            elif other not in atoms and atom in atoms:
                atoms[other] = atoms[atom]
        return atoms

    # ---- ranks ------------------------------------------------------------------------------------

    def pieces(self, side, name, shape, tp):
        """For each rank the indices that it holds along the split dimension: (dimension or None, [indices])."""
        scope = self.scope.inner({"tp": tp})
        layouts = self.sides[side].get("layouts") or [self.sides[side]["layout"]]
        layout = next(one for one in layouts if scope.value(one.get("when", True)))
        for rule in layout["rules"]:
            patterns = rule["tensor"] if isinstance(rule["tensor"], list) else [rule["tensor"]]
            if any(re.fullmatch(as_regex(pattern), name) for pattern in patterns):
                break
        else:
            raise AssertionError(f"no rule for {name}")
        if "tp" not in rule["dims"]:
            return None, [None] * tp
        dim = rule["dims"].index("tp")
        parts = scope.value(rule.get("parts", [shape[dim]]))
        assert sum(parts) == shape[dim], (name, parts, shape)
        units = scope.value(rule["units"]) if "units" in rule else [None]
        units = units if isinstance(units, list) else [units]
        copies = rule.get("copies", False)
        copies = copies if isinstance(copies, list) else [copies] * len(parts)
        held = [[] for _ in range(tp)]
        first = 0
        for part, unit, copied in zip(parts, itertools.cycle(units) if len(units) == 1 else units, copies):
            for rank in range(tp):
                held[rank] += [first + i for i in self.run(name, part, unit or part, copied, rank, tp, rule)]
            first += part
        return dim, held

    @staticmethod
    def run(name, part, units, copied, rank, tp, rule):
        width = part // units
        if units < tp and copied:
            assert tp % units == 0, (name, units, tp)
            unit = rank * units // tp
            return range(unit * width, (unit + 1) * width)
        if "units" in rule or rule.get("split") == "even":
            assert units % tp == 0, (name, units, tp)
        step = -(-units // tp) * width
        return range(min(rank * step, part), min((rank + 1) * step, part))

    def to_ranks(self, side, tensors, tp):
        ranks = [{} for _ in range(tp)]
        for name, array in tensors.items():
            dim, held = self.pieces(side, name, array.shape, tp)
            for rank in range(tp):
                ranks[rank][name] = array if dim is None else np.take(array, held[rank], dim)
        return ranks


def as_regex(pattern):
    out, at = "", 0
    for found in re.finditer(r"\*\*|\*|\{(\w+)\}|\(([^)]*)\)", pattern):
        out += re.escape(pattern[at:found.start()])
        text = found.group(0)
        out += {"**": ".*", "*": "[^.]*"}.get(text) or (r"\d+" if found.group(1) else f"(?:{found.group(2)})")
        at = found.end()
    return out + re.escape(pattern[at:])


def embedded(name):
    """The map of that name in the tree."""
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "specs", "maps", f"{name}.yaml")
