#!/bin/bash
# Checks a corpus of HLO texts, if there is one: golden prints byte for byte, refusals with a
# position, and of every STEP-th valid text that text, print and proto agree.
# Usage: corpus.sh GXC FOLDER [STEP]; prints what is wrong and one line of counts.
gxc=$1 corpus=$2 step=${3:-40} wrong=0 golden=0 valid=0 invalid=0
[ -d "$corpus/golden" ] || { echo "corpus: none at $corpus, skipped"; exit 0; }
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
complain() { echo "corpus: $1"; wrong=$((wrong + 1)); }
print() { "$gxc" --emit=hlo --passes=none "$@" 2>"$work/messages"; }
trimmed() {
    local text
    text=$(cat "$1")
    text="${text#"${text%%[![:space:]]*}"}"
    printf '%s' "${text%"${text##*[![:space:]]}"}"
}

while IFS=$'\t' read -r name form _ input expected; do
    [ "$name" = name ] && continue
    [ "$form" = nonroundtrip ] && form=short
    golden=$((golden + 1))
    print --print="$form" "$corpus/golden/$input" >"$work/1"
    cmp -s <(trimmed "$work/1") <(trimmed "$corpus/golden/$expected") || complain "golden $name differs"
done < <(tr -d '\r' <"$corpus/golden.tsv")

for file in "$corpus"/invalid/*.hlo; do
    invalid=$((invalid + 1))
    "$gxc" --verify "$file" 2>"$work/messages"
    [ $? = 1 ] && grep -qE ':[0-9]+:[0-9]+: error: .' "$work/messages" || complain "$file is not refused"
done

i=0
for file in "$corpus"/valid/*.hlo; do
    i=$((i + 1))
    [ $((i % step)) = 0 ] || continue
    "$gxc" --verify "$file" 2>/dev/null || continue # the verifier's business
    valid=$((valid + 1))
    print "$file" >"$work/1" && print - <"$work/1" >"$work/2" && cmp -s "$work/1" "$work/2" ||
        complain "$file prints otherwise when read again"
    "$gxc" --emit=pb --passes=none "$work/1" -o "$work/pb" && print "$work/pb" >"$work/2" &&
        cmp -s "$work/1" "$work/2" || complain "$file changes by way of HloModuleProto"
done
echo "corpus: $golden golden, $invalid refused, $valid valid, $wrong wrong"
[ $wrong = 0 ]
