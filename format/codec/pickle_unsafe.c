/*
 * Which globals are dangerous when Python loads them (PKL-21). The lists name what runs code or
 * commands, imports by name, reaches attributes by name, opens files and connections, or loads
 * another pickle. An entry is a dotted path and stands for everything below it, so that neither a
 * submodule (asyncio.unix_events) nor a dotted name (module torch, name hub.load) slips past.
 *
 * What is not listed is opaque: shown and carried, never called by us.
 */
#include "codec/pickle.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Modules that other modules import: harmless_module.os.system reaches them as attributes. */
static const char *const REACHABLE[] = {
    "os",         "posix",       "nt",
    "subprocess", "sys",         "shutil",
    "socket",     "ctypes",      "importlib",
    "builtins",   "runpy",       "marshal",
    "pickle",     "cPickle",     "pty",
    "webbrowser", "http",        "urllib",
    "requests",   "asyncio",     "multiprocessing",
    "tempfile",   "inspect",     "operator",
    "pkgutil",    "zipimport",   "gc",
    "threading",  "atexit",      "mmap",
    "pdb",        "bdb",         "timeit",
    "imp",        "linecache",   "cffi",
    "dill",       "cloudpickle",
};

/* Other packages and modules, dangerous as a whole. */
static const char *const MODULES[] = {
    /* commands and code */
    "_posixsubprocess",
    "_winapi",
    "winreg",
    "msvcrt",
    "commands",
    "popen2",
    "pexpect",
    "pipes",
    "code",
    "codeop",
    "doctest",
    "cProfile",
    "profile",
    "_lsprof",
    "trace",
    "pydoc",
    "test",
    "unittest",
    "_pytest",
    "pytest",
    "nose",
    "idlelib",
    "lib2to3",
    "rlcompleter",
    "_pyrepl",
    "IPython",
    "ipykernel",
    "turtle",
    "tkinter",
    "antigravity",
    "mailcap",
    "_osx_support",
    "_aix_support",
    "compileall",
    "py_compile",
    "_interpreters",
    "_xxsubinterpreters",
    "concurrent",
    "_thread",
    "signal",
    "_signal",
    "faulthandler",
    "sched",
    "numexpr",
    /* import and reflection */
    "_frozen_importlib",
    "_frozen_importlib_external",
    "_imp",
    "site",
    "sitecustomize",
    "usercustomize",
    "_operator",
    "_ctypes",

    /* packaging */
    "pip",
    "venv",
    "ensurepip",
    "distutils",
    "setuptools",
    "pkg_resources",
    "_distutils_hack",
    /* network */
    "_socket",
    "ssl",
    "_ssl",
    "httplib",
    "httplib2",
    "httpx",
    "urllib2",
    "urllib3",
    "aiohttp",
    "ftplib",
    "smtplib",
    "smtpd",
    "telnetlib",
    "poplib",
    "imaplib",
    "nntplib",
    "xmlrpc",
    "xmlrpclib",
    "socketserver",
    "SocketServer",
    "select",
    "selectors",
    "asyncore",
    "asynchat",
    "paramiko",

    "boto",
    "boto3",
    /* other pickles and databases of them */
    "_pickle",
    "joblib",
    "shelve",
    "dbm",
    "sqlite3",
    "_sqlite3",
    "jsonpickle",
    /* files */
    "_pyio",
    "glob",
    "fileinput",
    "filecmp",
    "tarfile",
    "zipfile",
    "fcntl",
    "syslog",
    "termios",
    "resource",
    "platform",
    /* of the frameworks */
    "numpy.f2py",
    "numpy.testing",
    "numpy.distutils",
    "numpy.ctypeslib",
    "numpy.compat.py3k",
    "pandas.io",
    "pandas.eval",
    "pandas.core.computation",
    "pandas.read_pickle",
    "torch.jit",
    "torch.hub",
    "torch.ops",
    "torch.classes",
    "torch._ops",
    "torch._classes",
    "torch.package",
    "torch._inductor",
    "torch._dynamo",
    "torch.compile",
    "torch.multiprocessing",
    "torch.testing",
    "torch.utils.cpp_extension",
    "torch.utils.collect_env",
    "torch.utils.bottleneck",
    "torch.utils._config_module",
    "torch.utils.file_baton",
    "torch.utils.model_zoo",
    "torch.utils.hipify",
    "torch.utils.show_pickle",
    "torch.utils.data.datapipes.utils.decoder",
    "torch.fx.graph_module",
    "torch.fx.experimental",
    "torch.distributed.rpc",
    "torch.distributed.elastic",
    "torch.distributed.launch",
    "torch.distributed.launcher",
    "torch.distributed.run",
    "torch.cuda._compile_kernel",
    "torch.load",
    "torch.save",
    "torch.serialization.load",
    "torch.serialization.save",
    "torch.serialization._load",
    "torch.serialization._legacy_load",
    "torch.from_file",
    "torch.storage._load_from_bytes",
    "torch.distributed.distributed_c10d._object_to_tensor",
    "torch.distributed.distributed_c10d._tensor_to_object",
};

/* Single names in modules that are harmless otherwise. */
static const char *const NAMES[] = {
    "builtins.eval",
    "builtins.exec",
    "builtins.compile",
    "builtins.open",
    "builtins.__import__",
    "builtins.getattr",
    "builtins.setattr",
    "builtins.delattr",
    "builtins.globals",
    "builtins.locals",
    "builtins.vars",
    "builtins.input",
    "builtins.raw_input",
    "builtins.breakpoint",
    "builtins.apply",
    "builtins.execfile",
    "builtins.file",
    "builtins.reload",
    "builtins.help",
    "builtins.exit",
    "builtins.quit",
    "builtins.dict.get",
    "builtins.dict.__getitem__",
    "builtins.__build_class__",
    "io.open",
    "io.open_code",
    "io.FileIO",
    "_io.open",
    "_io.open_code",
    "_io.FileIO",
    "codecs.open",
    "codecs.register",
    "codecs.EncodedFile",
    "types.FunctionType",
    "types.LambdaType",
    "types.CodeType",
    "types.MethodType",
    "types.ModuleType",
    "types.CellType",
    "types.BuiltinFunctionType",
    "types.new_class",

    "logging.FileHandler",
    "logging.StreamHandler",
    "logging.config",
    "logging.handlers",
    "logging.basicConfig",
    "logging.shutdown",
    "uuid._get_command_stdout",
    "uuid._popen",
    "uuid.getnode",

    "numpy.load",
    "numpy.loads",
    "numpy.save",
    "numpy.savez",
    "numpy.savetxt",
    "numpy.loadtxt",
    "numpy.genfromtxt",
    "numpy.fromfile",
    "numpy.fromregex",
    "numpy.lib.npyio",
    "numpy.lib._npyio_impl",
    "numpy.lib.format.read_array",
    "numpy.lib.format.open_memmap",
    "numpy.core.multiarray.fromfile",
    "numpy._core.multiarray.fromfile",
    "yaml.load",
    "yaml.unsafe_load",
    "yaml.full_load",
    "yaml.load_all",
    "yaml.unsafe_load_all",
    "yaml.constructor",
    "yaml.loader",
    "weakref.finalize",
};

/* Values that live in such modules: enums, plain records, in-memory files. */
static const char *const HARMLESS[] = {
    "inspect.Signature",
    "inspect.Parameter",
    "inspect._ParameterKind",
    "inspect._empty",
    "signal.Signals",
    "signal.Handlers",
    "platform.uname_result",
    "os.PathLike",
    "pickle.PickleBuffer",
    "_pickle.PickleBuffer",
    "socket.AddressFamily",
    "socket.SocketKind",
    "joblib.numpy_pickle.NumpyArrayWrapper",
};

/* Functions that are dangerous wherever they were imported to. */
static const char *const ANYWHERE[] = {
    "system",     "popen",     "Popen",      "execfile",     "import_module", "check_output",
    "check_call", "runstring", "attrgetter", "methodcaller", "itemgetter",
};

#define COUNT(table) (sizeof(table) / sizeof(table)[0])

/* `path` is the entry or lies below it. */
static bool is_under(const char *path, const char *entry)
{
    size_t size = strlen(entry);
    return strncmp(path, entry, size) == 0 && (path[size] == '\0' || path[size] == '.');
}

static bool any_over(const char *path, const char *const *entries, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (entries[i][0] == path[0] && is_under(path, entries[i]))
            return true;
    }
    return false;
}

static bool is_one_of(const char *text, size_t size, const char *const *entries, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (strlen(entries[i]) == size && memcmp(entries[i], text, size) == 0)
            return true;
    }
    return false;
}

/* __globals__, __builtins__ ...: doors from any object to everything; not the pickler's own. */
static bool is_door(const char *part, size_t size)
{
    static const char *const pickled[] = {"__new__", "__newobj__", "__newobj_ex__"};
    return size > 4 && memcmp(part, "__", 2) == 0 && memcmp(part + size - 2, "__", 2) == 0 &&
           !is_one_of(part, size, pickled, COUNT(pickled));
}

/* A name is a path of attributes: Class.Inner, or the way through a module to another one. */
static bool name_unsafe(const char *name)
{
    for (const char *part = name; part != NULL;) {
        const char *dot = strchr(part, '.');
        size_t size = dot != NULL ? (size_t)(dot - part) : strlen(part);
        if (is_door(part, size))
            return true;
        /* Modules are often imported under a private name: collections._sys. */
        const char *bare = part;
        size_t bare_size = size;
        while (bare_size > 0 && bare[0] == '_') {
            bare++;
            bare_size--;
        }
        if (is_one_of(bare, bare_size, REACHABLE, COUNT(REACHABLE)))
            return true;
        if (dot == NULL)
            return is_one_of(part, size, ANYWHERE, COUNT(ANYWHERE));
        part = dot + 1;
    }
    return false;
}

bool swi_pickle_global_unsafe(const char *module, const char *name)
{
    char path[SWI_GLOBAL_MAX_BYTES + 16];
    if (strcmp(module, "__builtin__") == 0 || strcmp(module, "__builtins__") == 0)
        module = "builtins";
    int size = snprintf(path, sizeof path, "%s.%s", module, name);
    if (size < 0 || (size_t)size >= sizeof path)
        return true;
    if (is_one_of(path, (size_t)size, HARMLESS, COUNT(HARMLESS)))
        return false;
    /* Methods of paths write, delete and run; the paths themselves are values. */
    if (is_under(path, "pathlib") && strchr(name, '.') != NULL)
        return true;
    if (!is_under(path, "builtins") && any_over(path, REACHABLE, COUNT(REACHABLE)))
        return true;
    return any_over(path, MODULES, COUNT(MODULES)) || any_over(path, NAMES, COUNT(NAMES)) ||
           name_unsafe(name);
}

sw_status swi_pickle_report(const swi_pickle_unsafe *unsafe, const char *file, const char *name,
                            sw_report *report, sw_error *err)
{
    for (uint32_t i = 0; i < unsafe->listed; i++) {
        const swi_finding_in finding = {
            .severity = SW_DANGER,
            .status = SW_ERR_UNSAFE,
            .code = "unsafe-pickle",
            .file = file,
            .tensor = name,
            .has_offset = true,
            .offset_bytes = unsafe->at[i].offset_bytes,
        };
        sw_status status = swi_report_add(report, &finding, err,
                                          "%s is called or reached when Python loads this pickle; "
                                          "do not load it, ask where it comes from",
                                          unsafe->at[i].name);
        if (status != SW_OK)
            return status;
    }
    if (unsafe->total <= unsafe->listed)
        return SW_OK;
    const swi_finding_in finding = {.severity = SW_DANGER,
                                    .status = SW_ERR_UNSAFE,
                                    .code = "unsafe-pickle",
                                    .file = file,
                                    .tensor = name};
    return swi_report_add(report, &finding, err,
                          "%" PRIu64 " more dangerous globals in this pickle",
                          unsafe->total - unsafe->listed);
}
