"""JSON texts of the native format in their one form, and values in them (specs/values.md)."""
import json
import re


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


def read_state(data, names):
    about = parse_json(data)
    return about["ordered"], about["root"]


def read_rank(data, names):
    return {} if not data else {name: value for name, value in parse_json(data)["values"]}


def shown(value):
    return value
