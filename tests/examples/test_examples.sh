#!/bin/bash
# The programs of this folder are built as a user builds them, against the installed library, and do
# what they say. (That the package is found in every way is lint/package.sh's.)
set -euo pipefail

if ! grep -q '^SW_SANITIZE:STRING=OFF$' "$BUILD_DIR/CMakeCache.txt"; then
    echo "a library with sanitizers needs programs with them: skipped"
    exit 77
fi
prefix=$PWD/prefix
cmake --install "$BUILD_DIR" --prefix "$prefix" >/dev/null
library_folder=$(dirname "$(find "$prefix" -name libshardwright.so)")
PKG_CONFIG_PATH=$library_folder/pkgconfig
export PKG_CONFIG_PATH LD_LIBRARY_PATH=$library_folder
read -ra flags <<<"$(pkg-config --define-variable=prefix="$prefix" --cflags --libs shardwright)"
for source in "$SOURCE_DIR"/tests/examples/*.c; do
    cc -std=c17 -Wall -Wextra -Wpedantic -Werror "$source" "${flags[@]}" \
        -o "$(basename "$source" .c)"
done

same() {
    [ "$1" = "$2" ] || {
        printf '%s: want\n%s\ngot\n%s\n' "$3" "$2" "$1"
        exit 1
    }
}

"$prefix/bin/shardwright" demo sample >/dev/null
same "$(./read_region sample | head -2)" \
    'PyTorch distributed checkpoint (DCP), 32 tensors
model.embedding.weight float32 [250, 48] in 4 pieces' "the list"
# across the border of two ranks
same "$(./read_region sample model.embedding.weight 3022 3026)" \
    '3022
3023
3024
3025' "the region"
same "$(./export_weights sample weights)" '8 tensors, 63294 bytes, 8 read back' "the export"
same "$(./read_region weights | head -2)" \
    'Hugging Face safetensors, 8 tensors
embedding.weight bfloat16 [250, 48] in 1 pieces' "the export's list"

same "$(./save_checkpoint saved dcp:ranks=2)" '2 tensors in 3 files
6 7 8 9 10 11' "the save"
same "$(./save_checkpoint saved-native native:codec=planes)" '2 tensors in 5 files
6 7 8 9 10 11' "the save in the native format"
same "$(grep -o '"placements":\["S(1)"\]' saved-native/manifest.json)" '"placements":["S(1)"]' "its layout"
same "$(./save_checkpoint saved-weights hf)" '1 tensors in 1 files' "the save of weights"
code=0
./save_checkpoint saved dcp 2>said || code=$?
same "$code: $(grep -c '^EXISTS: saved: exists' said)" '5: 1' "a save over another"

# rows 62 and 63 of rank 0, row 63 on of rank 1: every element is its own flat index
python=$SOURCE_DIR/tests/examples/load_region.py
same "$(python3 "$python" sample model.embedding.weight 62:64 46:48)" \
    '3022.0 3023.0 3070.0 3071.0' "the box by ctypes"
code=0
python3 "$python" sample model.embedding.weight 0:2 0:49 2>said || code=$?
same "$code: $(cat said)" '1: ARG: region 0: tensor "model.embedding.weight": axis 1: 49 elements from 0 on, its size is 48' \
    "a box outside by ctypes"
same "$(./load_region sample 0 1 && ./load_region sample 2 3)" \
    '32 tensors, 375620 bytes, 375620 read, 375620 of them checked
32 tensors, 122924 bytes, 122924 read, 93068 of them checked' "what ranks take"
./load_region weights 1 4 >/dev/null

code=0
./read_region sample model.embedding.weight 0 99999 2>said || code=$?
same "$code: $(cat said)" '1: ARG: no such float32 elements' "a region outside"
rm sample/__1_0.distcp
code=0
./export_weights sample damaged 2>said || code=$?
same "$code: $(grep -c '^sample is damaged: __1_0.distcp is missing' said)" '1: 1' "damage"
[ ! -e damaged ]
echo "examples built and run"
