"""State dicts of ranks as FSDP saves them, without torch: DTensors and ShardedTensors, and what the
ranks of an FSDP1 run have of flat parameters.
"""
import os
import struct

from _inputs import Storage, Tensor, stub, torch_save

SHARDED = "torch.distributed._shard.sharded_tensor"


class Call:
    """What is pickled as a call of a global."""

    def __init__(self, module, name, *args):
        self.module, self.name, self.args = module, name, args

    def __reduce__(self):
        return stub(self.module, self.name), self.args


def made(module, name, state):
    """An object of a class, made by __new__ and given its state."""
    kind = stub(module, name)
    it = kind.__new__(kind)
    it.__setstate__(state)
    return it


def size(shape):
    return Call("torch", "Size", tuple(shape))


def wrapper(module, name, shape, state):
    """A tensor of a subclass: DTensor, ShardedTensor."""
    kind = stub(module, name)
    about = (kind, stub("torch", "float32"), size(shape), tuple(strides(shape)), 0,
             Call("torch.serialization", "_get_layout", "torch.strided"), Call("torch", "device", "cpu"), True)
    return Call("torch._tensor", "_rebuild_from_type_v2", stub("torch._utils", "_rebuild_wrapper_subclass"),
                kind, about, state)


def strides(shape):
    out, step = [], 1
    for length in reversed(shape):
        out.insert(0, step)
        step *= max(length, 1)
    return out


def count(shape):
    n = 1
    for length in shape:
        n *= length
    return n


def floats(values, shape, room=0):
    """`room`: elements of the storage behind the tensor's."""
    data = struct.pack(f"<{len(values) + room}f", *values, *[0] * room)
    return Tensor(Storage("FloatStorage", 4, data), shape)


def chunk(length, parts, i):
    step = -(-length // parts)
    return min(i * step, length), min((i + 1) * step, length)


def box_of(offset, lengths, rank):
    place = made("torch.distributed.remote_device", "_remote_device",
                   {"_worker_name": None, "_rank": rank, "_device": "cpu"})
    return made("torch.distributed._shard.metadata", "ShardMetadata",
                  (None, {"shard_offsets": list(offset), "shard_sizes": list(lengths), "placement": place}))


def sharded(values, shape, rank, world, room=0):
    """A rank's rows of a ShardedTensor of these values, as torch.chunk divides them."""
    row = count(shape[1:])
    bounds = [chunk(shape[0], world, r) for r in range(world)]
    boxes = [box_of([lo] + [0] * (len(shape) - 1), [hi - lo, *shape[1:]], r)
             for r, (lo, hi) in enumerate(bounds) if hi > lo]
    lo, hi = bounds[rank]
    local = [] if lo == hi else [
        made(SHARDED + ".shard", "Shard",
               (None, {"tensor": floats(values[lo * row:hi * row], [hi - lo, *shape[1:]], room),
                       "metadata": boxes[rank]}))]
    properties = made(SHARDED + ".metadata", "TensorProperties",
                        (stub("torch", "float32"), Call("torch.serialization", "_get_layout", "torch.strided"),
                         False, 0, False))
    metadata = made(SHARDED + ".metadata", "ShardedTensorMetadata",
                      {"shards_metadata": boxes, "size": size(shape), "tensor_properties": properties})
    group = made(SHARDED + ".api", "ProcessGroupState",
                   (None, {"local_rank": rank, "global_rank": rank, "local_world_size": world,
                           "global_world_size": world}))
    spec = made("torch.distributed._shard.sharding_spec.api", "EnumerableShardingSpec", {"shards": boxes})
    return wrapper(SHARDED + ".api", "ShardedTensor", shape, (local, metadata, group, spec, False))


def mesh_of(shape, rank):
    """A DeviceMesh of torch 2.13 over ranks 0 to n."""
    n = count(shape)
    axes = tuple(made("torch.distributed._mesh_layout", "_FlatLayout",
                        {"shape": (length,), "stride": (step,)}) for length, step in zip(shape, strides(shape)))
    layout = made("torch.distributed._mesh_layout", "_MeshLayout", {"axes": axes})
    ranks = Tensor(Storage("IntStorage", 4, struct.pack(f"<{n}i", *range(n))), [n])
    return made("torch.distributed.device_mesh", "DeviceMesh",
                  {"_device_type": "cpu", "_layout": layout, "_rank_map": ranks,
                   "_mesh_dim_names": tuple(f"axis{k}" for k in range(len(shape))), "_root_mesh": None,
                   "_flatten_rank_map": tuple(range(n)), "_thread_id": None, "_flatten_mapping": {},
                   "_dim_group_names": None, "_rank": rank, "_coordinate_on_dim": None, "_hash": None})


def placement(dim):
    """Of dimension `dim`; None: of none."""
    where = "torch.distributed.tensor.placement_types"
    return made(where, "Replicate", {}) if dim is None else made(where, "Shard", {"dim": dim})


def dtensor(values, shape, rank, mesh, dims):
    """A rank's part of a DTensor whose first dimension is divided by the mesh axes with dim 0."""
    lo, hi = 0, shape[0] if shape else 1
    rest, at = rank, []
    for length in reversed(mesh):
        at.insert(0, rest % length)
        rest //= length
    for length, number, dim in zip(mesh, at, dims):
        if dim is not None:
            a, b = chunk(hi - lo, length, number)
            lo, hi = lo + a, lo + b
    row = count(shape[1:])
    local = floats(values[lo * row:hi * row], [hi - lo, *shape[1:]])
    spec = made("torch.distributed.tensor._dtensor_spec", "DTensorSpec",
                  {"mesh": mesh_of(mesh, rank), "placements": tuple(placement(d) for d in dims),
                   "tensor_meta": None, "shard_order": None})
    return wrapper("torch.distributed.tensor", "DTensor", shape,
                   (None, {"_local_tensor": local, "_spec": spec}))


def save(folder, name, value):
    os.makedirs(folder, exist_ok=True)
    torch_save(os.path.join(folder, name), value)


def save_ranks(folder, world, state_of, name="model_world_size_{world}_rank_{rank}.pt", order=None):
    """A file a rank, each of what state_of(rank) gives; written in that order."""
    for rank in order or range(world):
        save(folder, name.format(world=world, rank=rank), state_of(rank))
