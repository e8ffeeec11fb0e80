#!/bin/bash
# The installed library is found by pkg-config and by CMake, shared and static, and says its version.
set -euo pipefail

prefix=$PWD/prefix
cmake --install "$BUILD_DIR" --prefix "$prefix" >/dev/null
library_folder=$(dirname "$(find "$prefix" -name libshardwright.so)")

cat >main.c <<'END'
#include <shardwright_format.h>
#include <stdio.h>
#include <string.h>

int main(void)
{
    puts(sw_version());
    return strcmp(sw_version(), SW_VERSION_STRING) == 0 ? 0 : 1;
}
END
for header in "$prefix"/include/*.h; do
    echo "#include <$(basename "$header")>" >>headers.c
done

# The .pc file names the prefix of the configuration; pkg-config can be told another.
export PKG_CONFIG_PATH=$library_folder/pkgconfig
flags=(--define-variable=prefix="$prefix" shardwright)
version=$(pkg-config --modversion shardwright)
read -ra cflags <<<"$(pkg-config --cflags "${flags[@]}")"
read -ra libs <<<"$(pkg-config --libs "${flags[@]}")"
read -ra static_libs <<<"$(pkg-config --static --libs "${flags[@]}")"

cc -std=c17 -Wall -Wextra -Wpedantic -Werror "${cflags[@]}" -c headers.c
if command -v c++ >/dev/null; then
    c++ -Wall -Wextra -Werror "${cflags[@]}" -x c++ -c headers.c -o headers_cpp.o
fi
cc "${cflags[@]}" main.c "${libs[@]}" -o shared
[ "$(LD_LIBRARY_PATH=$library_folder ./shared)" = "$version" ]
rm "$library_folder"/libshardwright.so*
cc "${cflags[@]}" main.c "${static_libs[@]}" -o static
[ "$(./static)" = "$version" ]

cmake --install "$BUILD_DIR" --prefix "$prefix" >/dev/null
cat >CMakeLists.txt <<'END'
cmake_minimum_required(VERSION 3.25)
project(consumer C)
find_package(shardwright 0.1 REQUIRED)
add_executable(consumer main.c)
target_link_libraries(consumer shardwright::shardwright)
END
cmake -S . -B consumer -G Ninja -DCMAKE_PREFIX_PATH="$prefix" >/dev/null
cmake --build consumer >/dev/null
[ "$(consumer/consumer)" = "$version" ]
echo "version $version, shared, static and CMake"
