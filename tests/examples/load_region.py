#!/usr/bin/env python3
"""Loads a box of a float32 tensor of any checkpoint, with nothing but ctypes:

    load_region.py run/step-1000 model.embed.weight 0:2 4:8
"""
import array
import ctypes
import math
import sys

AXES = 10  # SW_MAX_AXES
FLOAT32 = 12  # SW_F32


class Error(ctypes.Structure):
    _fields_ = [
        ("status", ctypes.c_int),
        ("sys_errno", ctypes.c_int),
        ("has_offset", ctypes.c_bool),
        ("offset_bytes", ctypes.c_uint64),
        ("clause", ctypes.c_char * 16),
        ("text", ctypes.c_char * 1024),
    ]


class Region(ctypes.Structure):
    _fields_ = [
        ("struct_bytes", ctypes.c_size_t),
        ("tensor", ctypes.c_char_p),
        ("dtype", ctypes.c_int),
        ("axes", ctypes.c_uint32),
        ("offset", ctypes.c_int64 * AXES),
        ("length", ctypes.c_int64 * AXES),
        ("out", ctypes.c_void_p),
        ("out_bytes", ctypes.c_uint64),
        ("strided", ctypes.c_bool),
        ("stride_bytes", ctypes.c_int64 * AXES),
    ]


def load(path, tensor, box):
    """The elements of the box, a list of (from, to) by axis, as an array of floats."""
    library = ctypes.CDLL("libshardwright.so")
    library.sw_status_name.restype = ctypes.c_char_p
    library.sw_checkpoint_close.argtypes = [ctypes.c_void_p]
    checkpoint, err = ctypes.c_void_p(), Error()

    def must(status):
        if status != 0:
            sys.exit(f"{library.sw_status_name(status).decode()}: {err.text.decode()}")

    must(library.sw_checkpoint_open(path.encode(), None, None, ctypes.byref(checkpoint),
                                    ctypes.byref(err)))
    out = array.array("f", bytes(4 * math.prod(hi - lo for lo, hi in box)))
    region = Region(struct_bytes=ctypes.sizeof(Region), tensor=tensor.encode(), dtype=FLOAT32,
                    axes=len(box), out=out.buffer_info()[0], out_bytes=4 * len(out))
    for axis, (lo, hi) in enumerate(box):
        region.offset[axis], region.length[axis] = lo, hi - lo
    must(library.sw_load(checkpoint, ctypes.byref(region), ctypes.c_size_t(1), None, None, None,
                         ctypes.byref(err)))
    library.sw_checkpoint_close(checkpoint)
    return out


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(f"usage: {sys.argv[0]} PATH TENSOR FROM:TO...")
    print(*load(sys.argv[1], sys.argv[2],
                [tuple(map(int, part.split(":"))) for part in sys.argv[3:]]))
