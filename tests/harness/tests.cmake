# Registers the tests. One executable per test_*.c, one per fuzz_*.c; scripts run as they are. Every
# test runs through in_tmp.sh in a temporary directory of its own.

set(SW_TEST_DIR "${PROJECT_SOURCE_DIR}/tests")
set(SW_IN_TMP bash "${SW_TEST_DIR}/harness/in_tmp.sh")
pkg_check_modules(CMOCKA IMPORTED_TARGET cmocka)
if(NOT CMOCKA_FOUND)
    message(STATUS "shardwright: cmocka not found, the unit tests are not built")
endif()

function(sw_test name label timeout)
    add_test(NAME "${name}" COMMAND ${SW_IN_TMP} ${ARGN})
    set_tests_properties("${name}" PROPERTIES LABELS "${label}" TIMEOUT "${timeout}"
        SKIP_RETURN_CODE 77
        ENVIRONMENT "SOURCE_DIR=${PROJECT_SOURCE_DIR};BUILD_DIR=${PROJECT_BINARY_DIR};SHARDWRIGHT=${PROJECT_BINARY_DIR}/shardwright;SHARDWRIGHT_FAULT=${PROJECT_BINARY_DIR}/shardwright-fault")
endfunction()

# tests/format/codec/test_zip.c -> format_codec_zip
function(sw_test_name path out)
    file(RELATIVE_PATH relative "${SW_TEST_DIR}" "${path}")
    string(REGEX REPLACE "\\.[a-z]+$" "" relative "${relative}")
    string(REGEX REPLACE "(^|/)test_" "\\1" relative "${relative}")
    string(REPLACE "/" "_" relative "${relative}")
    set(${out} "${relative}" PARENT_SCOPE)
endfunction()

# ---- unit tests ----------------------------------------------------------------------------------

add_library(sw_test_flags INTERFACE)
target_link_libraries(sw_test_flags INTERFACE sw_flags shardwright_static)
target_include_directories(sw_test_flags INTERFACE
    "${PROJECT_SOURCE_DIR}/format" "${PROJECT_SOURCE_DIR}/reshard" "${PROJECT_SOURCE_DIR}/convert"
    "${SW_TEST_DIR}")
target_compile_definitions(sw_test_flags INTERFACE SW_SOURCE_DIR="${PROJECT_SOURCE_DIR}")

file(GLOB harness_sources CONFIGURE_DEPENDS "${SW_TEST_DIR}/harness/*.c")
list(FILTER harness_sources EXCLUDE REGEX "/(fuzz_replay|test_[a-z_]*)\\.c$")
if(CMOCKA_FOUND AND NOT SW_FUZZ)
    set(harness)
    if(harness_sources)
        add_library(sw_harness STATIC ${harness_sources})
        target_link_libraries(sw_harness PUBLIC sw_test_flags PkgConfig::CMOCKA)
        set(harness sw_harness)
    endif()
    foreach(area format reshard convert cli harness)
        file(GLOB_RECURSE unit_tests CONFIGURE_DEPENDS "${SW_TEST_DIR}/${area}/test_*.c")
        foreach(source IN LISTS unit_tests)
            sw_test_name("${source}" name)
            add_executable("test_${name}" "${source}")
            set_target_properties("test_${name}" PROPERTIES
                RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests")
            if(area STREQUAL "cli" AND TARGET sw_cli)
                target_sources("test_${name}" PRIVATE $<TARGET_OBJECTS:sw_cli>)
                target_include_directories("test_${name}" PRIVATE "${PROJECT_SOURCE_DIR}/cli")
            endif()
            target_link_libraries("test_${name}" PRIVATE ${harness} sw_test_flags
                PkgConfig::CMOCKA)
            sw_test("${name}" unit 300 "$<TARGET_FILE:test_${name}>")
        endforeach()
    endforeach()
endif()

# ---- fuzz targets: libFuzzer, or a replay of the corpus ------------------------------------------

file(GLOB fuzz_sources CONFIGURE_DEPENDS "${SW_TEST_DIR}/fuzz/fuzz_*.c")
foreach(source IN LISTS fuzz_sources)
    get_filename_component(target "${source}" NAME_WE)
    string(REGEX REPLACE "^fuzz_" "" short "${target}")
    add_executable("${target}" "${source}")
    set_target_properties("${target}" PROPERTIES
        RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/fuzz")
    target_link_libraries("${target}" PRIVATE sw_test_flags)
    if(SW_FUZZ)
        target_link_options("${target}" PRIVATE -fsanitize=fuzzer)
    else()
        target_sources("${target}" PRIVATE "${SW_TEST_DIR}/harness/fuzz_replay.c")
        set(corpus "${SW_TEST_DIR}/fuzz/corpus")
        sw_test("fuzz_replay_${short}" fuzz 300 "$<TARGET_FILE:${target}>"
            "${corpus}/${target}" "${corpus}/${short}")
    endif()
endforeach()

# ---- programs that measure; no test runs them ----------------------------------------------------

if(NOT SW_FUZZ)
    file(GLOB bench_sources CONFIGURE_DEPENDS "${SW_TEST_DIR}/bench/*.c")
    foreach(source IN LISTS bench_sources)
        get_filename_component(target "${source}" NAME_WE)
        add_executable("${target}" "${source}")
        set_target_properties("${target}" PROPERTIES
            RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bench")
        target_link_libraries("${target}" PRIVATE sw_test_flags)
    endforeach()
endif()

# ---- the command with faults: every allocation and I/O call can be made to fail -------------------

if(TARGET shardwright AND EXISTS "${SW_TEST_DIR}/fault/fault.cmake" AND NOT SW_FUZZ)
    include("${SW_TEST_DIR}/fault/fault.cmake")
endif()

# ---- scripts -------------------------------------------------------------------------------------

if(NOT SW_FUZZ)
    if(TARGET shardwright)
        set(script_areas golden cli examples fault lint)
    else()
        set(script_areas lint)
    endif()
    foreach(area IN LISTS script_areas)
        file(GLOB scripts CONFIGURE_DEPENDS "${SW_TEST_DIR}/${area}/*.sh"
            "${SW_TEST_DIR}/${area}/test_*.py")
        foreach(script IN LISTS scripts)
            get_filename_component(base "${script}" NAME_WE)
            # Files named lib* and _* are sourced by others.
            if(base MATCHES "^(lib|_)")
                continue()
            endif()
            sw_test_name("${script}" name)
            set(runner bash)
            if(script MATCHES "\\.py$")
                set(runner python3)
            endif()
            sw_test("${name}" "${area}" 1800 ${runner} "${script}")
        endforeach()
    endforeach()
endif()
