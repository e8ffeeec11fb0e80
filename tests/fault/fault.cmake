# The command with the shim between it and libc. Static zstd, libcrypto and libyaml where there are
# any, so that their allocations can fail too.

file(GLOB fault_sources CONFIGURE_DEPENDS "${SW_TEST_DIR}/fault/*.c")
add_executable(shardwright-fault "${cli_main}" $<TARGET_OBJECTS:sw_cli> ${fault_sources})
# A program that saves what lies in its memory.
add_executable(shardwright-fault-save "${SW_TEST_DIR}/examples/save_checkpoint.c" ${fault_sources})
set(fault_programs shardwright-fault shardwright-fault-save)
foreach(program ${fault_programs})
    target_include_directories(${program} PRIVATE "${SW_PUBLIC_INCLUDE}" "${PROJECT_SOURCE_DIR}/cli")
    target_link_libraries(${program} PRIVATE sw_flags shardwright_static)
endforeach()
# The shim declares what only the linker knows (__real_NAME), and reserved names are its business.
set_source_files_properties(${fault_sources} PROPERTIES COMPILE_OPTIONS
    "-Wno-pedantic;-U_FILE_OFFSET_BITS;-fno-builtin")
foreach(library zstd crypto yaml)
    find_library(SW_STATIC_${library} NAMES lib${library}.a)
    if(SW_STATIC_${library})
        foreach(program ${fault_programs})
            target_link_libraries(${program} PRIVATE "${SW_STATIC_${library}}")
        endforeach()
    endif()
endforeach()

set(SW_WRAPPED
    malloc calloc realloc reallocarray posix_memalign aligned_alloc strdup strndup newlocale
    pthread_create
    openat openat64 open open64 fopen fopen64 read write pread pread64 preadv preadv64
    pwrite pwrite64 pwritev pwritev64 fsync fdatasync ftruncate ftruncate64 fallocate fallocate64
    posix_fallocate posix_fallocate64 rename renameat renameat2 mkdir mkdirat unlink unlinkat rmdir
    linkat fstat fstat64 stat stat64 lstat lstat64 fstatat fstatat64 readdir readdir64 fstatvfs
    fstatvfs64 faccessat opendir fdopendir flock readlinkat realpath
    getrandom)
list(TRANSFORM SW_WRAPPED PREPEND "-Wl,--wrap=" OUTPUT_VARIABLE wrap_options)
foreach(program ${fault_programs})
    target_link_options(${program} PRIVATE ${wrap_options})
endforeach()
