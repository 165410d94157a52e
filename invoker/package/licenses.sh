#!/usr/bin/env bash
# Prints the licences and notices of everything that the program is linked with: the
# modules that the build takes, by go.mod and for any processor, Go's own library, and
# what is embedded.
#
#   licenses.sh > third-party-licenses.txt
#
# A module without a licence fails, unless it is named below.
set -euo pipefail
export LC_ALL=C GOFLAGS= GOOS=linux CGO_ENABLED=1
cd "$(dirname "$0")/../.."

# Generated code of Couchbase's protocol, which its makers publish without a text.
without=' github.com/couchbase/goprotostellar '

# texts DIR TOP prints the names of the licence texts for a package in DIR of a module in TOP:
# the texts in DIR or above.
texts() {
	local dir=$1
	while :; do
		find "$dir" -maxdepth 1 -type f -regextype posix-extended \
			-iregex '.*/(licen[cs]e|copying|notice|patents)([-.][^/]*)?' ! -name '*.go'
		[[ $dir != "$2" ]] || return 0
		dir=${dir%/*}
	done
}

section() { printf '\n%s\n%s\n\n' "$(printf '=%.0s' {1..80})" "$1"; }

modules=$(for arch in amd64 arm64; do
	GOARCH=$arch go list -deps \
		-f '{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}} {{.Dir}}{{end}}{{end}} {{.Dir}}' ./invoker/cmd/gpuwhisk
done | sort -u | awk 'NF == 4')
echo 'Licences and notices of what GPU Whisk is linked with. Its own are LICENSE and NOTICE.'
while read -r path version top; do
	section "$path $version"
	found=$(awk -v "top=$top" '$3 == top { print $4 }' <<<"$modules" | while read -r dir; do texts "$dir" "$top"; done | sort -u)
	if [[ ! $found ]]; then
		[[ $without == *" $path "* ]] || { echo "licenses.sh: $path $version has no licence" >&2; exit 1; }
		echo 'The module has no text.'
	fi
	while read -r file; do
		[[ ! $file ]] || { printf -- '--- %s\n\n' "${file#"$top"/}"; cat "$file"; echo; }
	done <<<"$found"
done < <(awk '{ print $1, $2, $3 }' <<<"$modules" | sort -u)
section "Go's standard library $(go env GOVERSION)"
cat "$(go env GOROOT)/LICENSE"
for file in invoker/internal/operate/console/page/vendor/*LICENSE*; do
	section "$file"
	cat "$file"
done
