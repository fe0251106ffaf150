#!/bin/sh
# exported.sh RUNTIME LIBRARIES: says of each library whether it has all functions of its table.
# One that is not there is taken for good.
check() { # TABLE LIBRARY
    if [ ! -e "$2" ]; then
        echo "$1: no $2 here: exports all, as far as is known"
        return
    fi
    symbols=$(nm -D --defined-only "$2" | sed 's/.* //; s/@.*//')
    lacking=
    for name in $(sed -n 's/^[A-Z_]*FUNCTION([a-z0-9_]*, *\([A-Za-z0-9_]*\),.*/\1/p' "$1"); do
        case $name in gxemu*) continue ;; esac
        echo "$symbols" | grep -qx "$name" || lacking="$lacking $name"
    done
    if [ -n "$lacking" ]; then echo "$1 lacks$lacking"; else echo "$1: $2 exports all"; fi
}
check "$1/cuda.def" "$2/stubs/libcuda.so"
check "$1/cublaslt.def" "$2/libcublasLt.so.13"
check "$1/nccl.def" "$2/libnccl.so.2"
check "$1/cudnn.def" "$2/libcudnn.so.9"
