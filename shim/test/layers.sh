#!/usr/bin/env bash
# Holds the shim's sources to their layers: layers.sh OBJECTS, where OBJECTS has an
# object of each source under the same name. A file uses its own layer and those before
# it, by what it includes and by the symbols that its object lacks. Nor do the files of
# a layer depend on each other in a circle, but for two pairs: a lookup hands out the
# wrapper that it came through, and dlsym is half in assembly.
set -u
objects=$1 src=$(cd "$(dirname "$0")/../src" && pwd)
layers=(process driver memory migration agent hooks)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
fail() {
	echo "$*"
	failed=1
}

known=" ${layers[*]} "
for folder in "$src"/*; do
	[[ $known == *" ${folder##*/} "* ]] || fail "${folder##*/} is none of the layers$known"
done

# What is included by its layer's name; the table of entry points has none.
(cd "$src" && grep -on '^#include "[^"]*"' -- */*.c */*.h */*.S) |
	sed 's/^\([^:]*\):[0-9]*:#include "\(.*\)"/\1 \2/' | grep -v ' \.\./\.\./abi\.def$' >"$work/uses"

# name.o of a source, and what it defines and lacks.
for file in "$src"/*/*.[cS]; do
	file=${file#"$src"/}
	object=$objects/${file%.*}.o
	[[ -e $object ]] || { fail "$file has no object"; continue; }
	nm -g --defined-only "$object" | awk -v f="${file%.*}" 'NF == 3 {print $3, f}' >>"$work/defined"
	nm -u "$object" | awk -v f="${file%.*}" '{print f, $NF}' >>"$work/lacks"
done
awk 'NR == FNR {by[$1] = $2; next} $2 in by && by[$2] != $1 {print $1, by[$2], $2}' \
	"$work/defined" "$work/lacks" >"$work/calls"

# upward FILE: lines "user used [symbol]" that go to a later layer.
upward() {
	awk -v order="${layers[*]}" '
		BEGIN { n = split(order, name, " "); for (i = 1; i <= n; i++) level[name[i]] = i }
		{ split($1, from, "/"); split($2, to, "/")
		  if (!(to[1] in level)) print $1 " includes " $2 ", which is in no layer"
		  else if (level[to[1]] > level[from[1]])
			print $1 " of layer " level[from[1]] " uses " ($3 ? $3 " of " : "") $2 " of layer " level[to[1]] }' "$1"
}
for list in uses calls; do
	found=$(upward "$work/$list")
	[[ -z $found ]] || fail "$found"
done

grep -v -e '^hooks/lookup hooks/hooks ' -e '^hooks/tail hooks/dlsym ' "$work/calls" | awk '{print $1, $2}' >"$work/edges"
loop=$(tsort "$work/edges" 2>&1 >"$work/order" | sed -n 's,^tsort: \([a-z]*/[a-z]*\)$,\1,p' | sort -u)
[[ -z $loop ]] || fail "depend on each other in a circle:" $loop

((failed)) || echo "$(wc -l <"$work/defined") symbols in ${#layers[@]} layers: ${layers[*]}"
exit $failed
