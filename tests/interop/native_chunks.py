"""What a chunk's stored bytes stand for (specs/chunk_codecs.md), and where its elements lie in the tensor (NAT-11)."""
import math
import struct

import zstandard

from native_values import Refused, need

RAW_MAX = 4 << 20


def unzstd(frame, size):
    try:
        about = zstandard.get_frame_parameters(frame)
        need(frame[:4] == b"\x28\xb5\x2f\xfd" and about.content_size == size and about.dict_id == 0, "COD-3", "frame")
        worker = zstandard.ZstdDecompressor().decompressobj()
        out = worker.decompress(frame)
    except zstandard.ZstdError as why:
        raise Refused("COD-3", str(why)) from None
    need(len(out) == size and worker.eof and not worker.unused_data, "COD-3", "a frame of another size")
    return out


def decode(codec, stored, size):
    need(codec <= 2, "COD-1", f"unknown codec {codec}")
    need(1 <= size <= RAW_MAX and 1 <= len(stored) <= size, "COD-1", "stored bytes of a chunk")
    if codec == 0:
        need(len(stored) == size, "COD-2", "a stored chunk of another size")
        return stored
    return unzstd(stored, size) if codec == 1 else join_planes(stored, size)


def join_planes(stored, size):
    width, rotated = stored[0], stored[1] if len(stored) > 1 else 2
    need(width in (1, 2, 4, 8, 16) and rotated <= (width in (2, 4)) and stored[2:4] == bytes(2)
         and len(stored) >= 4 + 4 * width, "COD-5", "head of planes")
    count, tail, at = size // width, size % width, 4 + 4 * width
    out = bytearray(size)
    for k, n in enumerate(struct.unpack_from(f"<{width}I", stored, 4)):
        need(1 <= n <= count and at + n <= len(stored), "COD-5", "size of a plane")
        plane = stored[at:at + n]
        out[k:count * width:width] = plane if n == count else unzstd(plane, count)
        at += n
    need(at + tail == len(stored), "COD-5", "bytes behind the planes")
    out[count * width:] = stored[at:]
    if rotated:
        code, top = {2: "H", 4: "I"}[width], 8 * width - 1
        whole = struct.unpack_from(f"<{count}{code}", out)
        struct.pack_into(f"<{count}{code}", out, 0, *[x >> 1 | (x & 1) << top for x in whole])
    return bytes(out)


def runs(shape, offset, length):
    """(first element, elements) of the rows of a box, in order."""
    if not shape:
        yield 0, 1
        return
    k = len(shape) - 1
    while k > 0 and length[k] == shape[k]:
        k -= 1
    inner = math.prod(shape[k + 1:])
    at, outer = [0] * k, math.prod(length[:k])
    for _ in range(outer):
        first = 0
        for axis in range(k):
            first = first * shape[axis] + offset[axis] + at[axis]
        yield (first * shape[k] + offset[k]) * inner, length[k] * inner
        for axis in reversed(range(k)):
            at[axis] = (at[axis] + 1) % length[axis]
            if at[axis]:
                break
