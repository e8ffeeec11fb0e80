# The command with the shim between it and libc. Static zstd, libcrypto and libyaml where there are
# any, so that their allocations can fail too.

file(GLOB fault_sources CONFIGURE_DEPENDS "${SW_TEST_DIR}/fault/*.c")
add_executable(shardwright-fault "${cli_main}" $<TARGET_OBJECTS:sw_cli> ${fault_sources})
target_include_directories(shardwright-fault PRIVATE "${SW_PUBLIC_INCLUDE}"
    "${PROJECT_SOURCE_DIR}/cli")
target_link_libraries(shardwright-fault PRIVATE sw_flags shardwright_static)
# The shim declares what only the linker knows (__real_NAME), and reserved names are its business.
set_source_files_properties(${fault_sources} PROPERTIES COMPILE_OPTIONS
    "-Wno-pedantic;-U_FILE_OFFSET_BITS;-fno-builtin")
foreach(library zstd crypto yaml)
    find_library(SW_STATIC_${library} NAMES lib${library}.a)
    if(SW_STATIC_${library})
        target_link_libraries(shardwright-fault PRIVATE "${SW_STATIC_${library}}")
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
target_link_options(shardwright-fault PRIVATE ${wrap_options})
