#!/bin/bash
# explain.sh FOLDER GXC...: compiles the example of every opcode.
folder=$1 count=0
shift
mkdir -p "$folder"
unsupported=$("$@" --list-unsupported | sed 's/  .*//; s/, /\n/g')
for op in $("$@" --list-ops | cut -d' ' -f1); do
    "$@" --explain="$op" >"$folder/$op.txt" || echo "FAIL $op: no explanation"
    grep -q '^types and shapes: .' "$folder/$op.txt" || echo "FAIL $op: no types and shapes"
    sed '1,/^example:$/d' "$folder/$op.txt" >"$folder/$op.hlo"
    grep -qE "[ =]$op\\(" "$folder/$op.hlo" || echo "FAIL $op: it is not in its example"
    "$@" --verify "$folder/$op.hlo" || echo "FAIL $op: its example is wrong"
    "$@" "$folder/$op.hlo" -o "$folder/out" --target=emu 2>"$folder/err" ||
        grep -qx -- "$op" <<<"$unsupported" || echo "FAIL $op: $(head -1 "$folder/err")"
    count=$((count + 1))
done
echo "$count examples"
