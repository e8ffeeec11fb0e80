"""Files of torch.save without torch: nested dicts and lists with float32 tensors, by Python's pickle."""
import collections
import io
import pickle
import struct
import sys
import types
import zipfile


def _stand_in(module, name):
    """A class that pickle writes as module.name."""
    made = type(name, (), {"__module__": module})
    sys.modules.setdefault(module, types.ModuleType(module))
    setattr(sys.modules[module], name, made)
    return made


_rebuild = _stand_in("torch._utils", "_rebuild_tensor_v2")
_storage_class = _stand_in("torch", "FloatStorage")


class _Storage:
    def __init__(self, values):
        self.values = values


class Tensor:
    """Elements base, base + 1 ... of this shape."""

    def __init__(self, *shape, base=0.0):
        self.shape = shape
        count = 1
        for size in shape:
            count *= size
        self.storage = _Storage([base + i for i in range(count)])

    def __reduce__(self):
        strides, step = [], 1
        for size in reversed(self.shape):
            strides.insert(0, step)
            step *= size
        return _rebuild, (self.storage, 0, self.shape, tuple(strides), False,
                          collections.OrderedDict())


def save(value, path):
    storages = []

    class Pickler(pickle._Pickler):  # pylint: disable=protected-access
        def persistent_id(self, obj):
            if not isinstance(obj, _Storage):
                return None
            if obj not in storages:
                storages.append(obj)
            return ("storage", _storage_class, str(storages.index(obj)), "cpu", len(obj.values))

    data = io.BytesIO()
    Pickler(data, protocol=2).dump(value)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        def put(name, content):  # a fixed time: the same bytes each time
            archive.writestr(zipfile.ZipInfo(f"archive/{name}"), content)
        put("data.pkl", data.getvalue())
        put("byteorder", b"little")
        for number, storage in enumerate(storages):
            put(f"data/{number}", struct.pack(f"<{len(storage.values)}f", *storage.values))
        put("version", b"3\n")


def training_run():
    """What a run in DDP saves: names behind "module.", an optimizer that numbers its parameters, with
    weight decay for the matrices alone, and a scheduler."""
    shapes = {"up.weight": (6, 4), "up.bias": (6,), "down.weight": (4, 6), "down.bias": (4,)}
    order = ["up.weight", "down.weight", "up.bias", "down.bias"]
    return {
        "model": {f"module.{n}": Tensor(*s, base=100.0 * i) for i, (n, s) in enumerate(shapes.items())},
        "optimizer": {
            "state": {i: {"step": Tensor(base=7.0), "exp_avg": Tensor(*shapes[n], base=1000.0 + i),
                          "exp_avg_sq": Tensor(*shapes[n], base=2000.0 + i)}
                      for i, n in enumerate(order)},
            "param_groups": [{"lr": 0.5, "betas": (0.9, 0.95), "weight_decay": 0.1, "foreach": None,
                              "params": [0, 1]},
                             {"lr": 0.5, "betas": (0.9, 0.95), "weight_decay": 0.0, "foreach": None,
                              "params": [2, 3]}]},
        "lr_scheduler": {"last_epoch": 7, "_last_lr": [0.5, 0.5]},
    }


def unit_run():
    """The same with a group of the optimizer for each module, as flat parameters of FSDP1 have them."""
    run = training_run()
    names = [name.removeprefix("module.") for name in run["model"]]
    moments = {n: t.shape for n, t in zip(names, run["model"].values())}
    run["optimizer"]["state"] = {
        i: {"step": Tensor(base=7.0), "exp_avg": Tensor(*moments[n], base=1000.0 + i)}
        for i, n in enumerate(names)}
    for group, numbers in zip(run["optimizer"]["param_groups"], ([0, 1], [2, 3])):
        group["params"] = numbers
    return run
