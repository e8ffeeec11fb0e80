"""The include graph: cli -> convert -> reshard -> format, the order inside format/, and one file per
external library. CMake already hides the layers above; this also sees the folders of format/."""
import os.path
import re

import _lint

SEES = {
    "format": ("format",),
    "reshard": ("reshard", "format"),
    "convert": ("convert", "reshard", "format"),
}
FORMAT_SEES = {
    "base": {"base"},
    "io": {"base", "io"},
    "model": {"base", "model"},
    "codec": {"base", "model", "codec"},
    "container": {"base", "io", "model", "codec", "container"},
    "native": {"base", "io", "model", "codec", "container", "native"},
}
# Header pattern -> how many files of the library may include it.
EXTERNAL = {
    r"zstd\.h|zstd_errors\.h": 2,  # zstd (streams) and chunk_codec (blocks)
    r"isa-l\.h|isa-l/crc\.h|crc\.h": 1,
    r"zlib\.h": 1,
    r"yaml\.h": 1,
    r"hdf5\.h": 1,
    r"openssl/\w+\.h": 2,  # digest and sign
}
SYSTEM = set("""
assert ctype dirent endian errno fcntl fenv float fnmatch getopt inttypes iso646 limits locale math poll pthread
sched signal spawn stdalign stdarg stdatomic stdbool stddef stdint stdio stdlib stdnoreturn string
strings sys/auxv sys/file sys/ioctl sys/random sys/resource sys/stat sys/statfs sys/statvfs
sys/syscall sys/sysmacros sys/time sys/types sys/uio sys/vfs sys/wait threads time unistd wchar
immintrin x86intrin cpuid arm_neon linux/fs linux/magic linux/openat2 linux/stat
""".split())
PUBLIC = {"shardwright_format.h": "format", "shardwright_reshard.h": "reshard",
          "shardwright_convert.h": "convert"}
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.M)


def resolve(tree, path, name):
    """The file that a quoted include names, the way the build looks for it; None if there is none."""
    top = path.split("/")[0]
    folders = [os.path.dirname(path)] + list(SEES.get(top, (top,)))
    for folder in folders:
        candidate = os.path.normpath(os.path.join(folder, name))
        if candidate in tree.files:
            return candidate
    return None


def check_one(tree, path, kind, name):
    top = path.split("/")[0]
    if name in PUBLIC:
        if top != "cli" and PUBLIC[name] not in SEES[top]:
            return f"{top}/ must not see {name}"
        return None
    if kind == "<":
        if name.removesuffix(".h") in SYSTEM or any(re.fullmatch(p, name) for p in EXTERNAL):
            return None
        return f"<{name}> is no system header that the lint knows"
    target = resolve(tree, path, name)
    if target is None:
        return f'"{name}" is in no layer that {top}/ sees'
    if os.path.basename(path) in PUBLIC:
        return f'a public header must not include the private "{name}"'
    if target.split("/")[0] == top and top == "format":
        return check_format(path, target)
    if target.split("/")[0] not in SEES.get(top, (top,)):
        return f"{top}/ must not see {target}"
    return None


def check_format(path, target):
    here, there = path.split("/"), target.split("/")
    if len(here) < 3:
        return f"{path} must lie in a folder of format/"
    if len(there) < 3 or there[1] in FORMAT_SEES.get(here[1], ()):
        return None
    return f"format/{here[1]}/ must not see format/{there[1]}/ ({target})"


def check(tree):
    findings, users = [], {}
    for path, text in tree.c_files(*_lint.LAYERS):
        code = _lint.strip_c(text, strings=False)
        for match in INCLUDE.finditer(code):
            kind, name = match.groups()
            complaint = check_one(tree, path, kind, name)
            if complaint:
                findings.append(f"{path}:{_lint.line_of(code, match.start(1))}: {complaint}")
            for pattern in EXTERNAL:
                if re.fullmatch(pattern, name):
                    users.setdefault(pattern, set()).add(path)
    for pattern, paths in users.items():
        if len(paths) > EXTERNAL[pattern] or any(p.startswith("cli/") for p in paths):
            findings.append(f"{pattern} is included by {', '.join(sorted(paths))}: "
                            f"{EXTERNAL[pattern]} of the library may")
    return findings


BASE = {"format/base/b.h": "", "format/model/m.h": "", "format/io/i.h": "", "format/codec/c.h": "",
        "reshard/plan.h": "", "convert/hf.h": "", "format/container/t.h": ""}
BAD = [
    ({**BASE, "format/base/b.c": '#include "model/m.h"\n'}, "format/base/ must not see"),
    ({**BASE, "format/model/m.c": '#include "io/i.h"\n'}, "format/model/ must not see"),
    ({**BASE, "format/codec/c.c": '#include "io/i.h"\n'}, "format/codec/ must not see"),
    ({**BASE, "format/io/i.c": '#include "../container/t.h"\n'}, "format/io/ must not see"),
    ({**BASE, "format/base/b.c": '#include "../../reshard/plan.h"\n'}, "format/ must not see"),
    ({**BASE, "reshard/plan.c": '#include "hf.h"\n'}, "in no layer that reshard/ sees"),
    ({**BASE, "reshard/plan.c": "#include <shardwright_convert.h>\n"}, "must not see"),
    ({**BASE, "cli/main.c": '#include "base/b.h"\n'}, "in no layer that cli/ sees"),
    ({**BASE, "format/shardwright_format.h": '#include "base/b.h"\n'}, "public header"),
    ({"format/codec/a.c": "#include <zlib.h>\n", "format/codec/b.c": "#include <zlib.h>\n"},
     "is included by"),
    ({"convert/a.c": "#include <leveldb/c.h>\n"}, "no system header"),
]
GOOD = [
    {**BASE, "format/io/i.c": '#include "io/i.h"\n#include "base/b.h"\n#include <stdio.h>\n',
     "format/codec/z.c": "#include <zstd.h>\n/* #include <zlib.h> */\n",
     "format/container/t.c": '#include "t.h"\n#include "io/i.h"\n#include "codec/c.h"\n',
     "reshard/plan.c": '#include "plan.h"\n#include "model/m.h"\n',
     "cli/main.c": "#include <shardwright_convert.h>\n"},
]

if __name__ == "__main__":
    _lint.main(check, BAD, GOOD)
