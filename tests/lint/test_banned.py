"""Functions that may not be called: unbounded or unchecked ones anywhere, those that end the process
or print in the library, and those that move tensor bytes in convert/."""
import re

import _lint

ANYWHERE = set("""strcpy strcat sprintf vsprintf strtok gets atoi atol atoll atof alloca setjmp longjmp
    mktemp tmpnam system popen scanf sscanf fscanf""".split())
# Reads of checkpoint data that could be cut at any time must not be a mapping: SIGBUS.
LAYERS = ANYWHERE | set("mmap mmap64 rand srand localtime gmtime ctime asctime stpcpy".split())
LIBRARY = LAYERS | set("""abort exit _exit _Exit quick_exit atexit printf fprintf vprintf vfprintf puts
    fputs putchar putc fputc perror assert err errx warn warnx strerror setenv putenv
    signal sigaction fork""".split())
# convert/ describes bytes and never moves them.
CONVERT = LIBRARY | set("""pread pread64 preadv pwrite pwrite64 pwritev read write readv writev fopen
    fdopen open open64 openat creat fread fwrite sendfile copy_file_range
    swi_file_read swi_file_write swi_store_open_read swi_store_open_write swi_file_readv
    swi_file_writev""".split())
BY_TOP = {"format": LIBRARY, "reshard": LIBRARY, "convert": CONVERT, "cli": LAYERS,
          "tests": ANYWHERE}
# A call: not a member (x.read, x->read), not a declaration of a member (*read)(.
CALL = re.compile(r"(?<![\w.])(?<!->)([A-Za-z_]\w*)\s*\(")


def check(tree):
    findings = []
    for path, text in tree.c_files(*BY_TOP):
        code = _lint.strip_c(text)
        banned = BY_TOP[path.split("/")[0]]
        for match in CALL.finditer(code):
            if match.group(1) in banned:
                findings.append(f"{path}:{_lint.line_of(code, match.start())}: "
                                f"{match.group(1)} is not allowed here")
    return findings


def body(statement):
    return f"int f(void)\n{{\n    {statement}\n}}\n"


BAD = [
    ({"format/base/a.c": body("strcpy(a, b);")}, "a.c:3: strcpy"),
    ({"tests/format/a.c": body("sprintf(a, b);")}, "sprintf"),
    ({"reshard/a.c": body("abort();")}, "abort"),
    ({"reshard/a.c": body("printf(\"x\");")}, "printf"),
    ({"format/io/a.c": body("p = mmap(0, 1);")}, "mmap"),
    ({"cli/a.c": body("n = atoi (x);")}, "atoi"),
    ({"convert/hf.c": body("n = pread(fd, p, 1, 0);")}, "pread"),
    ({"convert/hf.c": body("swi_file_read(file, p, 1, 0, err);")}, "swi_file_read"),
    ({"convert/hf/a.c": body("f = fopen(p, m);")}, "fopen"),
]
GOOD = [
    {"format/base/a.c": body("snprintf(a, 1, b); vsnprintf(a); my_strcpy(a); /* strcpy(a) */")},
    {"convert/hf.c": body("x->read(x); x.write(x); s = \"open(\"; swi_read(x);")},
    {"cli/main.c": body("printf(\"x\"); exit(1);")},
]

if __name__ == "__main__":
    _lint.main(check, BAD, GOOD)
