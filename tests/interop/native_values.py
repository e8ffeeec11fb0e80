"""JSON texts of the native format in their one form, and values in them (specs/values.md)."""
import base64
import json
import math
import re
import struct


class Refused(Exception):
    """What is wrong, and the rule that says so."""

    def __init__(self, rule, what):
        super().__init__(f"{what} [{rule}]")


def need(good, rule, what):
    if not good:
        raise Refused(rule, what)


# ---- JSON -----------------------------------------------------------------------------------------


def no_number(text):
    raise ValueError(f"a number that is none here: {text}")


def number(text):
    value = int(text) if len(text) < 20 else no_number(text)
    return value if 0 <= value < 1 << 63 else no_number(text)


def distinct(pairs):
    if len({k for k, _ in pairs}) != len(pairs):
        raise ValueError("a member twice")
    return dict(pairs)


def canonical(value, ordered=True):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=ordered)


def parse_json(data):
    try:
        text = data.decode()
        if re.search(r"(?<!\\)(?:\\\\)*\\u0000", text):
            raise ValueError("a character 0")
        value = json.loads(text, parse_int=number, parse_float=no_number, parse_constant=no_number,
                           object_pairs_hook=distinct)
    except (ValueError, RecursionError) as why:
        raise Refused("NAT-5", f"not JSON: {why}") from None
    return value


# ---- values ---------------------------------------------------------------------------------------


class Tagged:
    """What JSON has no form of its own for: the tag without `$`, and what stands behind it."""

    def __init__(self, tag, value):
        self.tag, self.value = tag, value

    def __repr__(self):
        return f"{self.tag}({self.value!r})"


def float_text(value):
    for digits in (15, 16, 17):
        text = f"{value:.{digits}g}"
        if struct.pack("<d", float(text)) == struct.pack("<d", value):
            break
    return text if set(text) & set(".e") else text + ".0"


def a_float(text):
    value = float(text)
    if not math.isfinite(value) or float_text(value) != text:
        raise ValueError(f"the float {text}")
    return value


def an_int(text):
    value = int(text) if len(text) < 21 else no_number(text)
    return value if -1 << 63 <= value < 1 << 63 else no_number(text)


def is_hex(x):
    return isinstance(x, str) and len(x) % 2 == 0 and re.fullmatch("[0-9a-f]*", x) is not None


def is_int(x):
    data = bytes.fromhex(x) if is_hex(x) else b""
    value = int.from_bytes(data, "little", signed=True)
    fits = value.to_bytes((max(value, ~value).bit_length() + 8) // 8, "little", signed=True)
    return data == fits and not -1 << 63 <= value < 1 << 63


def is_float(x):
    if isinstance(x, dict):
        return list(x) == ["$float"] and is_special(x["$float"])
    return isinstance(x, float)


def is_special(x):
    if x in ("nan", "inf", "-inf"):
        return True
    value = struct.unpack(">d", bytes.fromhex(x))[0] if is_hex(x) and len(x) == 16 else 0.0
    return math.isnan(value) and x != "7ff8000000000000"


def is_lone(x):
    try:
        bytes.fromhex(x if is_hex(x) else "").decode()
    except UnicodeDecodeError:
        return True
    return False


def is_base64(x):
    try:
        return isinstance(x, str) and base64.b64encode(base64.b64decode(x, validate=True)).decode() == x
    except ValueError:
        return False


def is_global(x):
    return isinstance(x, list) and len(x) == 2 and all(isinstance(t, str) for t in x)


LEAVES = {"float": is_special, "int": is_int, "str": is_lone, "bytes": is_base64, "bytearray": is_base64,
          "global": is_global, "complex": lambda x: isinstance(x, list) and len(x) == 2 and all(map(is_float, x))}


def is_object(x):
    """Of values: what [callable,arguments,state,items,flags] has to be."""
    if len(x) != 5 or type(x[4]) is not int or not 0 <= x[4] <= 7:
        return False
    items = isinstance(x[3], (list, dict)) or isinstance(x[3], Tagged) and x[3].tag in ("dict", "ref")
    return (isinstance(x[1], Tagged) and x[1].tag == "tuple" and (x[4] & 2 or x[2] is None)
            and (items if x[4] & 4 else x[3] is None))


class Reading:
    """One document: shared containers by number, and which tensors there are."""

    def __init__(self, names):
        self.names, self.met, self.shared, self.used, self.open = names, set(), [], set(), set()

    def value(self, x):
        if isinstance(x, list):
            return [self.value(part) for part in x]
        if not isinstance(x, dict):
            return x
        tag = next(iter(x), "")
        if not tag.startswith("$"):
            need(not any(k.startswith("$") for k in x), "VAL-2", "a tag beside other members")
            return {k: self.value(part) for k, part in x.items()}
        if tag == "$id":
            return self.first(x)
        need(len(x) == 1, "VAL-4", f"{tag} beside other members")
        return self.tagged(tag[1:], x[tag])

    def first(self, x):
        need(list(x) == ["$id", "$value"] and x["$id"] == len(self.shared), "VAL-5", "$id")
        at = len(self.shared)
        self.shared.append(None)
        inner = x["$value"]
        is_object = isinstance(inner, dict) and "$object" in inner
        need(isinstance(inner, list) or isinstance(inner, dict) and next(iter(inner), "") not in ("$id", "$ref"),
             "VAL-5", "$value is no container")
        self.open |= {at} if is_object else set()
        self.shared[at] = self.value(inner)
        self.open -= {at}
        need(not isinstance(self.shared[at], Tagged) or self.shared[at].tag in ("dict", "set", "object"), "VAL-5",
             "$value is none that is shared")
        return self.shared[at]

    def tagged(self, tag, x):
        if tag == "ref":
            need(type(x) is int and 0 <= x < len(self.shared) and x not in self.open, "VAL-5", f"$ref {x}")
            self.used.add(x)
            return Tagged("ref", x)
        if tag == "tensor":
            need(x in self.names, "VAL-4", f"no tensor {x!r}")
            self.met.add(x)
        elif tag in ("tuple", "set", "frozenset", "dict", "object"):
            need(isinstance(x, list), "VAL-3", f"${tag} is no list")
            need(tag != "dict" or all(isinstance(p, list) and len(p) == 2 for p in x), "VAL-3", "$dict: pairs")
            need(tag != "dict" or not all(isinstance(p[0], str) and p[0][:1] != "$" for p in x), "VAL-1", "$dict")
            x = [[self.value(p) for p in pair] for pair in x] if tag == "dict" else [self.value(p) for p in x]
            need(tag != "object" or is_object(x), "VAL-3", "$object")
        elif tag == "persistent":
            x = self.value(x)
        else:
            need(tag in LEAVES and LEAVES[tag](x), "VAL-3", f"${tag}")
        return Tagged(tag, x)


MARK = "\0float "  # before the text of a float, to write it again as it is
MARK_TEXT = re.escape("\\u0000float ")


def document(data, members):
    """The JSON object of a text as VAL-1 has it."""
    try:
        text = data.decode()
        made = json.loads(text, parse_int=an_int, parse_float=a_float, parse_constant=no_number,
                          object_pairs_hook=distinct)
        again = json.loads(text, parse_float=lambda number: MARK + number)
        again = re.sub(f'"{MARK_TEXT}([^"]*)"', r"\1", canonical(again, ordered=False)) + "\n"
    except (ValueError, RecursionError) as why:
        raise Refused("VAL-1", f"no values: {why}") from None
    need(isinstance(made, dict) and type(made.get("format")) is int and made["format"] == 1, "VAL-1", "another format of values")
    need(list(made) == ["format", *members] and again == text, "VAL-1", "values are not in canonical form")
    return made


def read_state(data, names):
    """(whether dicts are in the order of modules, the state dict)"""
    if data in (b'{"format":1,"ordered":false}\n', b'{"format":1,"ordered":true}\n'):
        return b"true" in data, {name: Reading(names).value({"$tensor": name}) for name in names}
    about, reading = document(data, ["ordered", "root"]), Reading(names)
    need(isinstance(about["ordered"], bool), "VAL-1", "ordered")
    root = reading.value(about["root"])
    need(len(reading.used) == len(reading.shared), "VAL-5", "a number that nothing refers to")
    need(reading.met == set(names), "VAL-4", "a tensor of the table that it does not hold")
    return about["ordered"], root


def read_ranks(data, rank, world):
    """[(rank, name, value)] of a values section."""
    out = []
    for entry in document(data, ["values"])["values"] if data else ():
        need(isinstance(entry, list) and len(entry) == 3 and type(entry[0]) is int and entry[0] >= 0
             and entry[0] % world == rank and isinstance(entry[1], str), "VAL-1", f"a value that is none of rank {rank}")
        need(not out or (out[-1][0], out[-1][1].encode()) < (entry[0], entry[1].encode()), "VAL-1", "order of values")
        reading = Reading(())
        out.append((entry[0], entry[1], reading.value(entry[2])))
        need(len(reading.used) == len(reading.shared), "VAL-5", "a number that nothing refers to")
    return out


def shown(value):
    """As one text, for comparing and for people."""
    return repr(value)
