"""Small inputs that are made to cost much, each in a folder or file "bomb" (or bomb.safetensors): a
function makes it, from "sample" (DCP) and "hf" beside it. The codes that verify and convert may end
with, and words of which both must say one, stand before it.
"""
import json
import os
import pickle
import shutil
import struct
import zipfile

import _inputs as make

BOMBS = []  # (name, exits of verify, exits of convert, words, function)
ANY = (0, 1, 2, 3, 5)


def bomb(verify, convert, *words):
    def add(function):
        as_set = [(c,) if isinstance(c, int) else c for c in (verify, convert)]
        BOMBS.append((function.__name__, *as_set, words, function))
        return function
    return add


def write_header(text, data=b"", length=None):
    """A safetensors file with this header."""
    text = text if isinstance(text, bytes) else text.encode()
    make.write("bomb.safetensors", struct.pack("<Q", len(text) if length is None else length) + text + data)


# ---- safetensors ----------------------------------------------------------------------------------


@bomb(1, 2, "header")
def header_of_2_to_63_bytes():
    write_header("{}", length=1 << 63)


@bomb((1, 5), (2, 5), "header")
def header_of_100_megabytes_in_a_small_file():
    write_header("{}", length=100_000_000)


@bomb(1, 2, "header begins")
def header_of_many_brackets():
    write_header("[" * 20_000)


@bomb(5, 5, "nested deeper than")
def header_of_many_objects():
    write_header('{"a":' * 20_000)


@bomb(0, 0)
def header_of_many_tensors():
    write_header(json.dumps({f"t{i}": {"dtype": "U8", "shape": [1], "data_offsets": [i, i + 1]}
                             for i in range(20_000)}), bytes(20_000))


@bomb(1, 2, "shape")
def shape_that_overflows():
    write_header(json.dumps({"w": {"dtype": "F32", "shape": [1 << 62, 1 << 62],
                                   "data_offsets": [0, 4]}}), bytes(4))


@bomb(5, 5, "w")
def shape_of_numbers_with_a_million_digits():
    write_header('{"w":{"dtype":"F32","shape":[' + "9" * 1_000_000 + '],"data_offsets":[0,4]}}',
                 bytes(4))


@bomb(1, 2, "w")
def number_of_a_huge_exponent():
    write_header('{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4e999999999]}}', bytes(4))


@bomb((1, 2, 5), (2, 5), "w")
def shape_of_many_ones():
    write_header('{"w":{"dtype":"F32","shape":[' + ",".join("1" * 20_000)
                 + '],"data_offsets":[0,4]}}', bytes(4))


@bomb(1, 2, "w")
def one_name_many_times():
    entry = '"w":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}'
    write_header("{" + ",".join([entry] * 20_000) + "}")


@bomb(1, 2)
def tensors_that_all_overlap():
    entries = {f"t{i}": {"dtype": "U8", "shape": [100], "data_offsets": [0, 100]}
               for i in range(50_000)}
    write_header(json.dumps(entries), bytes(100))


@bomb((0, 1, 5), ANY)
def metadata_of_a_hundred_thousand_keys():
    text = json.dumps({"__metadata__": {f"k{i}": "v" * 10 for i in range(20_000)},
                       "w": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}})
    write_header(text, b"x")


def write_index(weight_map):
    os.mkdir("bomb")
    make.write("bomb/model.safetensors.index.json",
               json.dumps({"metadata": {}, "weight_map": weight_map}))


@bomb(1, 2, "not there")
def index_of_many_files():
    write_index({f"t{i}": f"f{i}.safetensors" for i in range(20_000)})


@bomb(1, 2, "not there")
def index_of_many_tensors_in_one_file():
    write_index({f"t{i}": "f.safetensors" for i in range(20_000)})


@bomb(5, 5, "leaves", "path")
def index_with_a_path_of_many_parts():
    write_index({"t": "../" * 20_000 + "etc/passwd"})


@bomb((1, 5), (2, 5))
def numbered_files_of_a_billion():
    os.mkdir("bomb")
    for i in range(3):
        make.write(f"bomb/model-{i + 1:09}-of-999999999.safetensors",
                   struct.pack("<Q", 2) + b"{}")


# ---- pickles --------------------------------------------------------------------------------------

PROTO = b"\x80\x04"


def raw_index(text):
    os.mkdir("bomb")
    make.write("bomb/.metadata", text)


def raw_torch(text, **records):
    make.torch_save("bomb", None, {"data.pkl": text, **records})


def each_pickle(name, text, verify, convert, *words):
    """As the index of a DCP folder, as a torch file, and as a file beside a checkpoint."""
    def index():
        raw_index(text)

    def archive():
        raw_torch(text)

    def beside():
        shutil.copytree("hf", "bomb")
        make.write("bomb/rng_state.pkl", text)
    for where, function in (("index", index), ("torch", archive), ("beside", beside)):
        function.__name__ = f"{name}_as_{where}"
        bomb((0, 1, 2, 5) if where == "beside" else verify,
             (0,) if where == "beside" else convert,
             *(() if where == "beside" else words))(function)


def doubled(levels):
    """[[...]] of lists that each hold the one before twice: 2 ** levels when it is written out."""
    text = b"]q\0"
    for i in range(1, levels):
        text += b"]" + b"q" + bytes([i]) + b"(h" + bytes([i - 1]) + b"h" + bytes([i - 1]) + b"e"
    return PROTO + text + b"."


BAD = ((0, 1, 2, 5), (2, 5))
each_pickle("many_marks", PROTO + b"(" * 20_000 + b".", *BAD)
each_pickle("many_nested_lists", PROTO + b"]" * 20_000 + b"a" * 99_999 + b".", *BAD)
each_pickle("many_nested_tuples", PROTO + b")" + b"\x85" * 20_000 + b".", *BAD)
each_pickle("many_copies", PROTO + b"]" + b"2" * 20_000 + b"t.", *BAD)
each_pickle("lists_doubled_60_times", doubled(60), (0, 1, 2, 5), (2, 5))
each_pickle("lists_doubled_200_times", doubled(200), (0, 1, 2, 5), (2, 5))
each_pickle("a_text_of_2_to_62_bytes", PROTO + b"\x8d" + struct.pack("<Q", 1 << 62) + b"abc.", *BAD)
each_pickle("bytes_of_2_gigabytes", PROTO + b"B" + struct.pack("<I", 0x7fffffff) + b"abc.", *BAD)
each_pickle("a_frame_of_2_to_62_bytes", PROTO + b"\x95" + struct.pack("<Q", 1 << 62) + b"N.",
            *((0, 1, 2, 5), (2, 5)))
each_pickle("a_memo_of_4_billion", PROTO + b"Nr\xff\xff\xff\xff.", (0, 1, 2, 5), (2, 5))
each_pickle("a_memo_named_by_text", b"Np2147483647\n.", (0, 1, 2, 5), (2, 5))
each_pickle("an_int_of_a_million_digits", b"I" + b"9" * 1_000_000 + b"\n.", (0, 1, 2, 5), (2, 5))
each_pickle("a_long_of_a_million_digits", b"L" + b"9" * 1_000_000 + b"L\n.", (0, 1, 2, 5), (2, 5))
each_pickle("a_long_of_a_megabyte", PROTO + b"\x8b" + struct.pack("<I", 1 << 20)
            + b"\x7f" * (1 << 20) + b".", (0, 1, 2, 5), (2, 5))
each_pickle("a_float_of_a_million_digits", b"F0." + b"1" * 1_000_000 + b"\n.", (0, 1, 2, 5), (2, 5))
each_pickle("many_empty_dicts", PROTO + b"](" + b"}" * 20_000 + b"e.", (0, 1, 2, 5), (2, 5))
each_pickle("many_calls", PROTO + b"ccollections\nOrderedDict\nq\0)R"
            + b"0h\0)R" * 300_000 + b".", (0, 1, 2, 5), (2, 5))
each_pickle("a_list_in_itself", PROTO + b"]q\0h\0a.", (0, 1, 2, 5), (2, 5))
each_pickle("a_dict_in_itself", PROTO + b"}q\0X\1\0\0\0ah\0s.", (0, 1, 2, 5), (2, 5))
each_pickle("states_of_states", PROTO + b"cmodule\nThing\nq\0)\x81" + b"h\0)\x81" * 20_000
            + b"b" * 20_000 + b".", *BAD)


# ---- values, where they are shown -----------------------------------------------------------------


def in_state(value):
    make.torch_save("bomb", {"model": {"w": make.floats([1.0], [1])}, "x": value})


@bomb(0, 0)
def a_value_of_a_million_digits():
    in_state(1 << 3_000_000)


@bomb(0, 0)
def a_text_of_many_control_characters():
    in_state("\x1b" * 20_000)


@bomb(0, 0)
def a_list_of_many_numbers():
    in_state(list(range(20_000)))


@bomb((0, 5), (0, 3, 5))
def a_value_shared_2_to_60_times():
    value = [1]
    for _ in range(60):
        value = [value, value]
    in_state(value)


@bomb(5, 5, "unfold")
def dicts_shared_2_to_40_times():
    value = {"a": 1}
    for _ in range(40):
        value = {"a": value, "b": value}
    in_state(value)


@bomb((0, 1, 2, 5), (0, 2, 3, 5))
def names_that_grow_with_depth():
    value = {"t": make.floats([1.0], [1])}
    for _ in range(200):
        value = {"n" * 5_000: value}
    make.torch_save("bomb", value)


@bomb(5, 5, "unfold")
def a_tensor_shared_2_to_30_times():
    value = {"t": make.floats([1.0], [1])}
    for _ in range(30):
        value = {"a": value, "b": value}
    make.torch_save("bomb", value)


@bomb((0, 1), (0, 2, 3))
def fifty_thousand_tensors_of_one_storage():
    storage = make.Storage("FloatStorage", 4, bytes(4096))
    make.torch_save("bomb", {f"t{i}": make.Tensor(storage, [8], i % 1000) for i in range(50_000)})


@bomb(5, 5, "repeat")
def a_tensor_expanded_to_2_to_50():
    make.torch_save("bomb", {"w": make.Tensor(make.Storage("FloatStorage", 4, bytes(4)),
                                              [1 << 25, 1 << 25], 0, [0, 0])})


@bomb((1, 2, 5), (2, 5))
def a_tensor_of_2_to_62():
    make.torch_save("bomb", {"w": make.Tensor(make.Storage("FloatStorage", 4, bytes(4)),
                                              [1 << 62], 0, [1])})


@bomb(0, (2, 3), "axes")
def a_tensor_of_many_axes():
    make.torch_save("bomb", {"w": make.Tensor(make.Storage("FloatStorage", 4, bytes(4)),
                                              [1] * 20_000, 0, [1] * 20_000)})


# ---- DCP ------------------------------------------------------------------------------------------


def from_sample(change):
    shutil.copytree("sample", "bomb")
    index = make.read_index("bomb")
    change(index.state, index)
    make.write_index("bomb", index)


NAME = "model.layers.0.up.weight"


@bomb((1, 5), (2, 5), NAME)
def a_chunk_of_2_to_62():
    def change(state, _):
        tensor = state["state_dict_metadata"][NAME].state
        tensor["chunks"][0].state["sizes"].args = ((1 << 62, 48),)
        tensor["size"].args = (tuple([1 << 62, 48]),)
    from_sample(change)


@bomb((1, 2, 5), (2, 5))
def a_hundred_thousand_chunks_of_one():
    def change(state, _):
        chunks = state["state_dict_metadata"][NAME].state["chunks"]
        chunks.extend([chunks[0]] * 20_000)
    from_sample(change)


@bomb((1, 2, 5), (2, 5))
def a_hundred_thousand_overlapping_chunks():
    def change(state, _):
        tensor = state["state_dict_metadata"][NAME].state
        first = tensor["chunks"][0]
        key = next(k for k in state["storage_data"] if k.state["fqn"] == NAME)
        where = state["storage_data"][key]
        size, index = first.state["sizes"], type(key)
        for i in range(20_000):
            offset = type(first.state["offsets"])((i % 75, i // 75 % 2))
            chunk, named = object.__new__(type(first)), object.__new__(index)
            for it, s in ((chunk, {"offsets": offset, "sizes": size}),
                          (named, {"fqn": NAME, "offset": offset, "index": i})):
                it.args, it.called, it.state = (), False, s
            tensor["chunks"].append(chunk)
            state["storage_data"][named] = where
    from_sample(change)


@bomb((0, 1, 2, 5), ANY)
def planner_paths_of_huge_positions():
    def change(state, _):
        for key in list(state["planner_data"]):
            state["planner_data"][key] = ("model", 1 << 62)
    from_sample(change)


@bomb((0, 1, 2, 5), ANY)
def planner_paths_of_ten_thousand_parts():
    def change(state, _):
        for i, key in enumerate(list(state["planner_data"])):
            state["planner_data"][key] = (*["a"] * 10_000, str(i))
    from_sample(change)


def zstd(data):
    """A frame of raw and repeated blocks, without a library."""
    blocks, at = b"", 0
    for size, repeat in data:
        at += 1
        last = at == len(data)
        head = (size << 3) | ((1 if repeat is not None else 0) << 1) | int(last)
        blocks += head.to_bytes(3, "little") + (repeat if repeat is not None else bytes(size))
    return b"\x28\xb5\x2f\xfd" + b"\x00" + b"\x58" + blocks


@bomb((1, 2, 5), (0, 2, 5))
def zstd_of_a_value_that_decodes_to_8_gigabytes():
    def change(state, index):
        where = make.places(index)["trainer.epoch", None]
        where["transform_descriptors"] = ["stream.zstd/1"]
        make.put_item("bomb", index, where, zstd([(1 << 17, b"\0")] * (1 << 16)))
    from_sample(change)


@bomb((1, 2, 5), (2, 5))
def zstd_of_a_tensor_that_decodes_to_8_gigabytes():
    def change(state, index):
        where = next(v for (n, _), v in make.places(index).items() if n == NAME)
        where["transform_descriptors"] = ["stream.zstd/1"]
        make.put_item("bomb", index, where, zstd([(1 << 17, b"\0")] * (1 << 16)))
    from_sample(change)


# ---- zip ------------------------------------------------------------------------------------------


def good_archive():
    return make.archive_of({"w": make.floats([1.0, 2.0], [2])})


def end_of(archive):
    return archive.rindex(b"PK\x05\x06")


@bomb((1, 2, 5), (2, 5))
def zip64_of_2_to_60_entries():
    archive = good_archive()
    end = end_of(archive)
    size, first = struct.unpack_from("<II", archive, end + 12)
    zip64 = struct.pack("<IQHHIIQQQQ", 0x06064b50, 44, 45, 45, 0, 0, 1 << 60, 1 << 60, size, first)
    locator = struct.pack("<IIQI", 0x07064b50, 0, end, 1)
    make.write("bomb", archive[:end] + zip64 + locator
               + struct.pack("<IHHHHIIH", 0x06054b50, 0, 0, 0xffff, 0xffff, 0xffffffff,
                             0xffffffff, 0))


@bomb((1, 2, 5), (2, 5))
def zip_of_a_directory_of_4_gigabytes():
    archive = bytearray(good_archive())
    struct.pack_into("<I", archive, end_of(archive) + 12, 0xfffffffe)
    make.write("bomb", bytes(archive))


@bomb((1, 2, 5), (2, 5))
def zip_of_a_hundred_thousand_entries_of_one_record():
    archive = good_archive()
    end = end_of(archive)
    size, first = struct.unpack_from("<II", archive, end + 12)
    entry = archive[first:first + 46 + struct.unpack_from("<H", archive, first + 28)[0]]
    many = entry * 60_000
    make.write("bomb", archive[:first] + many + struct.pack(
        "<IHHHHIIH", 0x06054b50, 0, 0, 60_000, 60_000, len(many), first, 0))


@bomb((1, 2, 5), (2, 5))
def zip_of_a_deflated_gigabyte():
    with zipfile.ZipFile("bomb", "w", zipfile.ZIP_DEFLATED) as archive:
        with archive.open("archive/data.pkl", "w") as file:
            for _ in range(100):
                file.write(bytes(1 << 20))
        archive.writestr("archive/version", "3\n")


@bomb((1, 2, 5), (2, 5))
def zip_of_an_end_record_in_every_comment():
    make.write("bomb", b"PK\x03\x04" + (b"PK\x05\x06" + bytes(18)) * 3_000)


# ---- the stream form ------------------------------------------------------------------------------


def stream(*parts):
    text = b""
    for part in parts:
        text += part if isinstance(part, bytes) else pickle.dumps(part, protocol=2)
    make.write("bomb", text)


HEAD = (0x1950a86a20f9469cfc6c, 1001,
        {"protocol_version": 1001, "little_endian": True,
         "type_sizes": {"short": 2, "int": 4, "long": 4}})


@bomb((1, 2, 5), (2, 5))
def stream_of_many_storage_names():
    stream(*HEAD, {"w": 1}, [str(i) for i in range(300_000)])


@bomb((1, 2, 5), (2, 5))
def stream_of_a_storage_of_2_to_62():
    text, _ = make.torch_pickle({"w": make.floats([1.0], [1])})
    stream(*HEAD, text, ["0"], struct.pack("<q", 1 << 62) + bytes(4))
