/* Which globals are dangerous, and that none of them slips past the machine. */
#include "harness/harness.h"

#include <stdio.h>

#include "codec/pickle.h"
#include "format/codec/pickle_text.h"

static const struct {
    const char *module, *name;
} dangerous[] = {
    {"os", "system"},
    {"posix", "system"},
    {"nt", "system"},
    {"os.path", "os.system"},
    {"subprocess", "Popen"},
    {"sys", "modules"},
    {"builtins", "eval"},
    {"builtins", "exec"},
    {"builtins", "__import__"},
    {"builtins", "getattr"},
    {"__builtin__", "eval"},
    {"__builtin__", "execfile"},
    {"__builtins__", "exec"},
    {"importlib", "import_module"},
    {"importlib.util", "module_from_spec"},
    {"runpy", "_run_code"},
    {"pickle", "loads"},
    {"_pickle", "loads"},
    {"cloudpickle.cloudpickle", "_make_function"},
    {"dill._dill", "_create_code"},
    {"joblib", "load"},
    {"marshal", "loads"},
    {"ctypes", "CDLL"},
    {"types", "CodeType"},
    {"types", "FunctionType"},
    {"pkgutil", "resolve_name"},
    {"operator", "attrgetter"},
    {"_operator", "methodcaller"},
    {"code", "InteractiveInterpreter.runcode"},
    {"pty", "spawn"},
    {"pdb", "run"},
    {"bdb", "Bdb.run"},
    {"cProfile", "runctx"},
    {"timeit", "timeit"},
    {"trace", "Trace.run"},
    {"doctest", "debug_script"},
    {"pydoc", "pipepager"},
    {"idlelib.pyshell", "ModifiedInterpreter.runcommand"},
    {"lib2to3.pgen2.grammar", "Grammar.loads"},
    {"ensurepip", "_run_pip"},
    {"pip", "main"},
    {"asyncio.unix_events", "_UnixSubprocessTransport._start"},
    {"multiprocessing.util", "spawnv_passfds"},
    {"uuid", "_get_command_stdout"},
    {"mailcap", "findmatch"},
    {"imaplib", "IMAP4_stream"},
    {"_osx_support", "_read_output"},
    {"_aix_support", "_read_cmd_output"},
    {"_pyrepl.pager", "pipe_pager"},
    {"test.support.script_helper", "assert_python_ok"},
    {"webbrowser", "open"},
    {"urllib.request", "urlopen"},
    {"requests.api", "get"},
    {"http.client", "HTTPSConnection"},
    {"socket", "create_connection"},
    {"ssl", "get_server_certificate"},
    {"shutil", "rmtree"},
    {"io", "open"},
    {"_io", "FileIO"},
    {"codecs", "open"},
    {"logging", "FileHandler"},
    {"logging.config", "listen"},
    {"pathlib", "Path.write_text"},
    {"tempfile", "NamedTemporaryFile"},
    {"sqlite3", "connect"},
    {"distutils.file_util", "write_file"},
    {"numpy.testing._private.utils", "runstring"},
    {"numpy.f2py.crackfortran", "getlincoef"},
    {"numpy", "load"},
    {"torch", "load"},
    {"torch", "hub.load"},
    {"torch.hub", "load"},
    {"torch.jit", "load"},
    {"torch.jit.unsupported_tensor_ops", "execWrapper"},
    {"torch.serialization", "load"},
    {"torch.storage", "_load_from_bytes"},
    {"torch._inductor.codecache", "compile_file"},
    {"torch._dynamo.guards", "GuardBuilder.get"},
    {"torch.fx.experimental.symbolic_shapes", "ShapeEnv.evaluate_guards_expression"},
    {"torch.fx.graph_module", "reduce_graph_module"},
    {"torch.utils.bottleneck.__main__", "run_cprofile"},
    {"torch.utils.collect_env", "run"},
    {"torch.utils._config_module", "ConfigModule.load_config"},
    {"torch.distributed.rpc", "rpc_sync"},
    /* the way through a harmless module */
    {"torch.storage", "os.system"},
    {"torch.serialization", "os"},
    {"collections", "_sys.modules"},
    {"numpy", "core._internal.sys.modules"},
    {"numpy", "__builtins__"},
    {"torch", "Tensor.__class__.__base__"},
    {"random", "_os.system"},
    {"a", "func.__globals__"},
    {"some_module", "system"},
    {"fsspec.utils", "import_module"},
};

static const struct {
    const char *module, *name;
} harmless[] = {
    {"collections", "OrderedDict"},
    {"collections", "defaultdict"},
    {"collections", "Counter"},
    {"collections", "deque"},
    {"builtins", "set"},
    {"builtins", "object"},
    {"builtins", "slice"},
    {"builtins", "range"},
    {"builtins", "type"},
    {"builtins", "bytearray"},
    {"builtins", "float"},
    {"__builtin__", "complex"},
    {"_codecs", "encode"},
    {"copyreg", "_reconstructor"},
    {"copyreg", "__newobj__"},
    {"argparse", "Namespace"},
    {"types", "SimpleNamespace"},
    {"pathlib", "PosixPath"},
    {"pathlib._local", "PosixPath"},
    {"datetime", "datetime"},
    {"uuid", "UUID"},
    {"enum", "Enum"},
    {"_io", "BytesIO"},
    {"functools", "partial"},
    {"signal", "Signals"},
    {"inspect", "_ParameterKind"},
    {"logging", "getLogger"},
    {"osgeo", "gdal"},
    {"system", "Config"},
    {"sysidentpy", "Model"},
    {"codecarbon", "Tracker"},
    {"numpy", "dtype"},
    {"numpy", "ndarray"},
    {"numpy._core.multiarray", "_reconstruct"},
    {"numpy._core.multiarray", "scalar"},
    {"numpy.core.multiarray", "_reconstruct"},
    {"numpy.random._pickle", "__randomstate_ctor"},
    {"torch", "Size"},
    {"torch", "float32"},
    {"torch", "device"},
    {"torch", "FloatStorage"},
    {"torch.storage", "UntypedStorage"},
    {"torch.serialization", "_get_layout"},
    {"torch._utils", "_rebuild_tensor_v2"},
    {"torch._tensor", "_rebuild_from_type_v2"},
    {"torch.nn.parameter", "Parameter"},
    {"torch.distributed.tensor", "DTensor"},
    {"torch.distributed.tensor.placement_types", "_StridedShard"},
    {"torch.distributed.device_mesh", "DeviceMesh"},
    {"torch.distributed.remote_device", "_remote_device"},
    {"torch.distributed._shard.sharded_tensor.api", "ShardedTensor.ProcessGroupState"},
    {"torch.distributed.checkpoint.metadata", "Metadata"},
    {"torch.distributed.checkpoint.metadata", "_MEM_FORMAT_ENCODING.TORCH_CONTIGUOUS_FORMAT"},
    {"torch.distributed.checkpoint.filesystem", "_StorageInfo"},
    {"torch.optim.lr_scheduler", "LambdaLR"},
    {"transformers.trainer_utils", "IntervalStrategy"},
    {"transformers.training_args", "TrainingArguments"},
    {"megatron.core.enums", "ModelType"},
    {"megatron.core.transformer.enums", "AttnBackend"},
    {"deepspeed.runtime.fp16.loss_scaler", "LossScaler"},
    {"omegaconf.dictconfig", "DictConfig"},
    {"a", "Class.__new__"},
};

static void test_lists(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof dangerous / sizeof dangerous[0]; i++) {
        if (!swi_pickle_global_unsafe(dangerous[i].module, dangerous[i].name))
            fail_msg("%s.%s is not dangerous", dangerous[i].module, dangerous[i].name);
    }
    for (size_t i = 0; i < sizeof harmless / sizeof harmless[0]; i++) {
        if (swi_pickle_global_unsafe(harmless[i].module, harmless[i].name))
            fail_msg("%s.%s is dangerous", harmless[i].module, harmless[i].name);
    }
}

/* ---- through the machine ----------------------------------------------------------------------
 */

static sw_status read_text(const char *pickle, swi_pickle_unsafe *unsafe, sw_error *err)
{
    swi_buf bytes = {0};
    sw_value_graph *graph = NULL;
    sw_value root;
    sw_error made = {0};
    *err = (sw_error){0};
    pickle_assemble(pickle, &bytes);
    swi_cursor cursor = swi_cursor_make(bytes.data, bytes.size);
    assert_ok(swi_graph_make(NULL, &graph, &made), &made);
    sw_status status = swi_pickle_read(&cursor, NULL, graph, &root, unsafe, err);
    sw_value_graph_free(graph);
    swi_buf_free(&bytes);
    return status;
}

static const struct {
    const char *pickle;
    const char *name;
    uint64_t offset;
} found[] = {
    {"GLOBAL os system ; BINUNICODE x ; TUPLE1 ; REDUCE ; STOP", "os.system", 0},
    {"MARK ; BINUNICODE x ; INST os system ; STOP", "os.system", 7},
    {"MARK ; GLOBAL os system ; BINUNICODE x ; OBJ ; STOP", "os.system", 1},
    {"PROTO 4 ; BINUNICODE os ; BINUNICODE system ; STACK_GLOBAL ; STOP", "os.system", 20},
    /* the names come out of the memo, put there in mixed ways */
    {"PROTO 4 ; MARK ; BINSTRING os ; BINPUT 0 ; BINSTRING system ; BINPUT 1 ; BINUNICODE torch ; "
     "MEMOIZE ; "
     "POP_MARK ; BINGET 0 ; BINGET 1 ; STACK_GLOBAL ; STOP",
     "os.system", 41},
    {"PROTO 4 ; BINUNICODE torch.storage ; BINUNICODE os.system ; STACK_GLOBAL ; STOP",
     "torch.storage.os.system", 34},
    {"PROTO 2 ; GLOBAL __builtin__ eval ; STOP", "builtins.eval", 2},
    {"PROTO 2 ; GLOBAL exceptions eval ; STOP", "builtins.eval", 2},
    {"PROTO 2 ; GLOBAL __builtin__ reduce ; POP ; GLOBAL os kill ; STOP", "os.kill", 23},
    /* getattr: of a class only, and only as a call */
    {"PROTO 2 ; GLOBAL __builtin__ getattr ; STOP", "builtins.getattr", 2},
    {"PROTO 2 ; GLOBAL __builtin__ getattr ; INT 1 ; BINUNICODE real ; TUPLE2 ; REDUCE ; STOP",
     "builtins.getattr", 36},
    {"PROTO 2 ; GLOBAL __builtin__ getattr ; GLOBAL torch serialization ; BINUNICODE os ; TUPLE2 ; "
     "REDUCE ; "
     "STOP",
     "torch.serialization.os", 52},
    {"PROTO 2 ; GLOBAL __builtin__ getattr ; GLOBAL a B ; BINUNICODE __globals__ ; TUPLE2 ; REDUCE "
     "; STOP",
     "a.B.__globals__", 45},
    {"PROTO 2 ; GLOBAL __builtin__ getattr ; BINPUT 0 ; GLOBAL a B ; BINUNICODE C ; TUPLE2 ; "
     "REDUCE ; POP ; "
     "GLOBAL builtins map ; BINGET 0 ; EMPTY_LIST ; TUPLE2 ; REDUCE ; STOP",
     "builtins.getattr", 2},
    {"PROTO 2 ; GLOBAL __builtin__ getattr ; DUP ; GLOBAL a B ; BINUNICODE C ; TUPLE2 ; REDUCE ; "
     "TUPLE2 ; STOP",
     "builtins.getattr", 2},
};

static void test_found_with_position(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof found / sizeof found[0]; i++) {
        swi_pickle_unsafe unsafe;
        sw_error err;
        assert_ok(read_text(found[i].pickle, &unsafe, &err), &err);
        if (unsafe.total != 1 || unsafe.at[0].offset_bytes != found[i].offset)
            print_error("%s: %llu at %llu\n", found[i].pickle, (unsigned long long)unsafe.total,
                        (unsigned long long)unsafe.at[0].offset_bytes);
        assert_int_equal(unsafe.total, 1);
        assert_int_equal(unsafe.listed, 1);
        assert_string_equal(unsafe.at[0].name, found[i].name);
        assert_int_equal(unsafe.at[0].offset_bytes, found[i].offset);
        /* a caller that takes no list gets an error */
        assert_int_equal(read_text(found[i].pickle, NULL, &err), SW_ERR_UNSAFE);
        assert_string_equal(err.clause, "PKL-21");
        assert_int_equal(err.offset_bytes, found[i].offset);
        assert_contains(err.text, found[i].name);
    }
}

static void test_found_before_the_pickle_breaks(void **state)
{
    swi_pickle_unsafe unsafe;
    sw_error err;
    (void)state;
    assert_int_equal(read_text("GLOBAL os system ; raw ff", &unsafe, &err), SW_ERR_FORMAT);
    assert_string_equal(unsafe.at[0].name, "os.system");
    assert_int_equal(read_text("GLOBAL builtins getattr ; raw ff", &unsafe, &err), SW_ERR_FORMAT);
    assert_contains(err.text, "0xff is no opcode");
    assert_string_equal(unsafe.at[0].name, "builtins.getattr");
    assert_int_equal(read_text("GLOBAL builtins getattr ; raw ff", NULL, &err), SW_ERR_UNSAFE);
    assert_error(&err, SW_ERR_UNSAFE, "builtins.getattr");
}

/* A global that is changed in place: numpy.prod.a = 'os', sys.modules['x'] = ... */
static void test_changing_a_global_is_dangerous(void **state)
{
    swi_pickle_unsafe unsafe;
    sw_error err;
    (void)state;
    assert_int_equal(read_text("GLOBAL numpy prod ; EMPTY_DICT ; BUILD ; STOP", &unsafe, &err),
                     SW_ERR_FORMAT);
    assert_string_equal(unsafe.at[0].name, "numpy.prod");
    assert_string_equal(err.clause, "PKL-17");
    assert_int_equal(read_text("GLOBAL m registry ; NONE ; NONE ; SETITEM ; STOP", &unsafe, &err),
                     SW_ERR_FORMAT);
    assert_string_equal(unsafe.at[0].name, "m.registry");
    assert_string_equal(err.clause, "PKL-13");
}

static void test_nested_classes_are_harmless(void **state)
{
    swi_pickle_unsafe unsafe;
    sw_error err;
    (void)state;
    assert_ok(
        read_text("PROTO 2 ; GLOBAL __builtin__ getattr ; BINPUT 0 ; GLOBAL a B ; BINPUT 1 ; "
                  "BINUNICODE C ; TUPLE2 ; REDUCE ; BINGET 0 ; BINGET 1 ; BINUNICODE D ; TUPLE2 ; "
                  "REDUCE ; TUPLE2 ; STOP",
                  &unsafe, &err),
        &err);
    assert_int_equal(unsafe.total, 0);
}

static void test_many_are_counted_and_reported(void **state)
{
    swi_buf bytes = {0};
    swi_pickle_unsafe unsafe;
    sw_error err = {0};
    sw_value_graph *graph;
    sw_value root;
    sw_report *report;
    (void)state;
    for (int i = 0; i < 20; i++)
        pickle_assemble("GLOBAL os '\\x1b[31msystem' ; POP", &bytes);
    pickle_assemble("NONE ; STOP", &bytes);
    swi_cursor cursor = swi_cursor_make(bytes.data, bytes.size);
    assert_ok(swi_graph_make(NULL, &graph, &err), &err);
    assert_ok(swi_pickle_read(&cursor, NULL, graph, &root, &unsafe, &err), &err);
    assert_int_equal(unsafe.total, 20);
    assert_int_equal(unsafe.listed, SWI_PICKLE_UNSAFE_MAX);
    assert_string_equal(unsafe.at[1].name, "os.\\x1b[31msystem");
    assert_ok(sw_report_make(&report, &err), &err);
    assert_ok(swi_pickle_report(&unsafe, "a/.metadata", "x", report, &err), &err);
    assert_int_equal(sw_report_count(report), SWI_PICKLE_UNSAFE_MAX + 1);
    const sw_finding *f = sw_report_at(report, 1);
    assert_int_equal(f->severity, SW_DANGER);
    assert_int_equal(f->status, SW_ERR_UNSAFE);
    assert_string_equal(f->code, "unsafe-pickle");
    assert_string_equal(f->file, "a/.metadata");
    assert_int_equal(f->offset_bytes, unsafe.at[1].offset_bytes);
    assert_contains(f->message, "os.\\x1b[31msystem is called");
    assert_contains(sw_report_at(report, SWI_PICKLE_UNSAFE_MAX)->message, "12 more");
    sw_report_free(report);
    sw_value_graph_free(graph);
    swi_buf_free(&bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lists),
        cmocka_unit_test(test_found_with_position),
        cmocka_unit_test(test_found_before_the_pickle_breaks),
        cmocka_unit_test(test_changing_a_global_is_dangerous),
        cmocka_unit_test(test_nested_classes_are_harmless),
        cmocka_unit_test(test_many_are_counted_and_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
