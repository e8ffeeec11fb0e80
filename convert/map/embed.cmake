# Writes the C file that holds the maps:
#     cmake -D SW_MAPS=FILE;FILE... -D SW_TEMPLATE=embedded.c.in -D SW_OUT=FILE.c -P embed.cmake

set(SW_MAP_ARRAYS "")
set(SW_MAP_ROWS "")
set(number 0)
set(names "")
foreach(file IN LISTS SW_MAPS)
    get_filename_component(name "${file}" NAME_WE)
    get_filename_component(folder "${file}" DIRECTORY)
    list(APPEND names "${name}")
endforeach()
list(SORT names) # of names, not of files: a dot is more than a hyphen
foreach(name IN LISTS names)
    set(file "${folder}/${name}.yaml")
    file(READ "${file}" bytes HEX)
    # Sixteen bytes a line.
    string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
    string(REPEAT "0x[0-9a-f][0-9a-f]," 16 line)
    string(REGEX REPLACE "(${line})" "\\1\n    " bytes "${bytes}")
    string(APPEND SW_MAP_ARRAYS
        "/* ${name} */\nstatic const uint8_t map_${number}[] = {\n    ${bytes}\n};\n\n")
    string(APPEND SW_MAP_ROWS "    {\"${name}\", map_${number}, sizeof map_${number}},\n")
    math(EXPR number "${number} + 1")
endforeach()
configure_file("${SW_TEMPLATE}" "${SW_OUT}" @ONLY)
