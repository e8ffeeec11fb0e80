"""The shim sees everything that can fail: no object of the library or the command calls an allocation
or I/O function of libc that fault.cmake does not wrap."""
import os
import re
import subprocess
import sys

# What could be called but is not wrapped (yet): wrap it in io.c when the library begins to use it.
UNWRAPPED = set("""
    memalign valloc pvalloc asprintf vasprintf open_memstream fmemopen getline getdelim
    creat creat64 openat2 dup fdopen freopen fread fwrite fgets fseek fseeko fflush
    readv writev preadv2 pwritev2 copy_file_range sendfile splice truncate truncate64
    sync syncfs msync link symlink symlinkat remove
    fstatat statx statfs fstatfs statvfs statvfs64 access scandir scandir64 nftw ftw glob
    getcwd readlink mkstemp mkostemp mkdtemp tmpfile chmod fchmod fchmodat chown utimensat
    syscall socket pipe pipe2 posix_spawn posix_spawnp
""".split())
# Hints and calls whose failure changes nothing are left out: close, posix_fadvise, sync_file_range.


def main():
    build = os.environ.get("BUILD_DIR", "build")
    folder = os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(folder, "fault.cmake"), encoding="ascii") as file:
        wrapped = set(re.search(r"set\(SW_WRAPPED\s+(.*?)\)", file.read(), re.S).group(1).split())
    listing = subprocess.run(["nm", "-A", "-u", os.path.join(build, "libshardwright.a")],
                             check=True, capture_output=True, text=True).stdout
    called = {line.split()[-1].split("@")[0]: line.split(":")[1] for line in listing.splitlines()}
    if "malloc" not in called:
        sys.exit("the library allocates nothing? the listing cannot be right")
    found = sorted(name for name in called if name in UNWRAPPED - wrapped)
    for name in found:
        print(f"{called[name]} calls {name}, which the fault shim does not wrap")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
