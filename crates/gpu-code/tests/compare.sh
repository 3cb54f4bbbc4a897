#!/bin/bash
# Compares our list of the GPU code in libraries with that of LLVM 22.
#
#     compare.sh ENTRIES READOBJ LIBRARY...
#
# ENTRIES is the example `entries` of this crate, READOBJ is llvm-readobj of LLVM 22. Every target,
# offset and size must be the same, in the same order. Fails if any is different, or if one of the
# programs fails.
set -euo pipefail
entries=$1
readobj=$2
shift 2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# Both lists in one form: target, offset and size. LLVM gives the position in the file for plain
# bundles, and the position in the decompressed bundle for compressed ones.
ours() {
    "$entries" "$1" | awk '{
        bundle = $(NF - 4) == "-" || $NF == "compressed" ? 0 : $(NF - 4)
        printf "%s %.0f %s\n", $(NF - 3), bundle + $(NF - 2), $(NF - 1)
    }'
}
theirs() {
    "$readobj" --offloading "$1" 2> "$folder/warnings" | sed -nE '/#offset=/ {
        s/^host-[^\t]*\t.*#offset=([0-9]+)&size=([0-9]+)$/host \1 \2/
        s/^hip[^\t]*-amdhsa--?([^\t]*)\t.*#offset=([0-9]+)&size=([0-9]+)$/\1 \2 \3/
        p
    }' || return
    if [ -s "$folder/warnings" ]; then
        cat "$folder/warnings" >&2
        return 1
    fi
}

equal=0
failed=0
for library; do
    name=${library##*/}
    if ! ours "$library" > "$folder/ours" || ! theirs "$library" > "$folder/theirs"; then
        echo "$name: cannot be compared"
        failed=1
    elif diff "$folder/theirs" "$folder/ours" > "$folder/difference"; then
        count=$(wc -l < "$folder/ours")
        echo "$name: $count entries are equal"
        equal=$((equal + count))
    else
        echo "$name: there are differences (< LLVM, > ours)"
        head -20 "$folder/difference"
        failed=1
    fi
done
echo "$equal entries are equal"
exit $failed
