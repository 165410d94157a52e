#!/usr/bin/env bash
# Holds libgpuwhisk.so to its table: it exports the hooks, dlsym and dlvsym and
# nothing else, every <what> of the table is served, and it needs no symbol of a
# glibc after 2.17 where that is asked for: exports.sh LIBRARY [2.17]
set -u
lib=$1 here=$(cd "$(dirname "$0")/.." && pwd)
want=$({ echo dlsym; echo dlvsym; sed -n -e 's/^\(HOOK\|AFTER\|TAKES\|GIVES\|NODE\|SHARES\|GATE\)([^,]*, *\([^,]*\),.*/\2/p' -e 's/^\(NVML\|LIST\)(\([^,]*\),.*/\2/p' "$here/abi.def"; } | sort)
got=$(nm -D --defined-only "$lib" | awk '{print $3}' | sort)
if [ "$want" != "$got" ]; then
	echo "$lib exports other than its table:"
	diff <(echo "$want") <(echo "$got")
	exit 1
fi
if [ "${2:-}" ]; then
	newer=$(nm -D --undefined-only "$lib" | grep -o 'GLIBC_[0-9.]*' | sort -uV |
		awk -v max="$2" '{split(substr($0, 7), v, "."); split(max, m, "."); if (v[1] > m[1] || (v[1] == m[1] && v[2] > m[2])) print}')
	[ -z "$newer" ] || { echo "$lib needs $newer"; exit 1; }
fi
size=$(stat -c %s "$lib")
echo "$lib: $(echo "$got" | wc -l) exports, $size bytes"
