#!/usr/bin/env bash
# Makes deb and rpm packages, and with RELEASE=1 what a release has besides:
# tarballs, the Ansible collection, a bill of materials and checksums. Two runs
# on one commit give the same bytes: every time in them is the commit's.
#
#   packages.sh [amd64] [arm64]      both without arguments, into dist/
#
# VERSION    as git describes it: v1.2.3, or v1.2.3-4-gabcdef between tags
# DIST       where to (default dist)
# PACKAGERS  deb and rpm
# COMPRESSION  xz, or gzip where it must be quick
# PROGRAMS   a folder with amd64/ and arm64/ that are built already
set -euo pipefail

top=$(cd "$(dirname "$0")/../.." && pwd)
cd "$top"
NFPM=github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.44.1
CYCLONEDX=github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.10.0
VERSION=${VERSION:-$(git describe --tags --always --dirty)}
MTIME=$(TZ=UTC0 git log -1 --format=%cd --date=format-local:%Y-%m-%dT%H:%M:%SZ)
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
# A package's version begins with a digit. Commits after a tag sort after the tag, and a
# release candidate (v1.2.0-rc1) sorts before its release.
PACKAGE_VERSION=$(sed -E 's/^v//; s/-([0-9]+)-g/+\1.g/; s/-dirty$/+dirty/; s/-/~/g; /^[0-9]+\./!s/^/0.0.0+g/' <<<"$VERSION")
export VERSION MTIME SOURCE_DATE_EPOCH PACKAGE_VERSION
dist=${DIST:-dist}
mkdir -p "$dist"
dist=$(cd "$dist" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
[[ $# -gt 0 ]] || set -- amd64 arm64

# archive DIR FILE packs a folder with nothing of this machine in it.
archive() {
	(cd "$(dirname "$1")" && tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" \
		--mode=u=rwX,go=rX -cf - "$(basename "$1")") | gzip -9n >"$2"
}

# programs ARCH prints the folder with a processor's programs, which are built
# the first time.
programs() {
	local dir=${PROGRAMS:+$PROGRAMS/$1}
	dir=${dir:-$work/$1}
	[[ -e $dir/gpuwhisk ]] || invoker/package/programs.sh "$1" "$dir" >&2
	echo "$dir"
}

# words DIR writes what is the same for all processors: manual, completions,
# documents. This machine's program prints them.
words() {
	mkdir -p "$1/doc"
	local program
	program=$(programs "$(go env GOHOSTARCH)")/gpuwhisk
	"$program" man "$1/man"
	find "$1/man" -name '*.1' -exec gzip -9n {} +
	local shell
	for shell in bash zsh fish; do "$program" completion "$shell" >"$1/gpuwhisk.$shell"; done
	cp README.md NOTICE docs/*.md "$1/doc/"
	invoker/package/licenses.sh >"$1/doc/third-party-licenses.txt"
	gzip -9nc CHANGELOG.md >"$1/changelog.gz"
	gzip -9nc >"$1/changelog.Debian.gz" <<-END
		gpuwhisk ($PACKAGE_VERSION-1) unstable; urgency=medium

		  * GPU Whisk $VERSION. Its changes are in changelog.gz.

		 -- $(sed -n 's/^maintainer: //p' invoker/package/nfpm.yaml)  $(LC_ALL=C date -u -R -d "@$SOURCE_DATE_EPOCH")
	END
}

# check_directories DEB... fails if a user cannot enter a directory of a package, such
# as a manual's that has the mode of its pages.
check_directories() {
	command -v dpkg-deb >/dev/null || return 0
	local deb closed
	for deb; do
		closed=$(dpkg-deb -c "$deb" | awk '/^d/ && $1 !~ /^drwx/')
		[[ ! $closed ]] || {
			printf '%s has directories that nobody can enter:\n%s\n' "$deb" "$closed" >&2
			return 1
		}
	done
}

# check_policy DEB... fails if lintian finds a fault that the package's overrides do not
# justify. It is skipped where lintian is not installed.
check_policy() {
	command -v lintian >/dev/null || return 0
	lintian --allow-root --display-info --fail-on error,warning,info "$@" >&2
}

# tool MODULE builds a tool of the release, once. Its modules are downloaded, and
# a server that stumbles must not fail a release.
tool() {
	local i
	for i in 1 2 3 4; do
		GOFLAGS='' GOBIN=$work/own go install "$1" && return
		sleep $((i * 3))
	done
	return 1
}

# collection FILE builds the Ansible collection with ansible-galaxy, and packs it again with
# the commit's time.
collection() {
	local version tree=$work/collection
	version=$(sed -nE 's/^v?([0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?)$/\1/p' <<<"$VERSION")
	mkdir -p "$tree/packed"
	cp -r ansible "$tree/source"
	[[ ! $version ]] || sed -i "s/^version: .*/version: $version/" "$tree/source/galaxy.yml"
	eval "$(.ci/peers/ansible.sh start)"
	"$GPUWHISK_TEST_ANSIBLE/venv/bin/ansible-galaxy" collection build "$tree/source" --output-path "$tree"
	tar -xzf "$tree"/*.tar.gz -C "$tree/packed"
	(cd "$tree/packed" && tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" \
		--mode=u=rwX,go=rX -cf - MANIFEST.json FILES.json $(ls -I MANIFEST.json -I FILES.json)) | gzip -9n >"$1"
}

words "$work/words"
tool "$NFPM"
[[ ! ${RELEASE:-} ]] || tool "$CYCLONEDX"
for arch; do
	programs=$(programs "$arch")
	WORDS=$work/words
	sed "s|\${PROGRAMS}|$programs|; s|\${WORDS}|$WORDS|; s|\${ARCH}|$arch|; s|\${PACKAGE_VERSION}|$PACKAGE_VERSION|; s|\${MTIME}|$MTIME|; s|\${COMPRESSION}|${COMPRESSION:-xz}|" \
		invoker/package/nfpm.yaml >"$work/nfpm.yaml"
	for packager in ${PACKAGERS:-deb rpm}; do
		"$work/own/nfpm" package --config "$work/nfpm.yaml" --packager "$packager" --target "$dist/"
		[[ $packager == deb ]] || continue
		check_directories "$dist/"gpuwhisk_*_"$arch".deb
		check_policy "$dist/"gpuwhisk_*_"$arch".deb
	done
	[[ ${RELEASE:-} ]] || continue
	tree=$work/gpuwhisk-$VERSION-linux-$arch
	mkdir -p "$tree"/{bin,lib/gpuwhisk,share,etc}
	cp "$programs/gpuwhisk" "$tree/bin/"
	cp "$programs/"{gpuwhisk-log,libgpuwhisk.so} "$tree/lib/gpuwhisk/"
	cp -r "$work/words/." "$tree/share/"
	rm "$tree/share/"changelog*
	cp invoker/package/files/{gpuwhisk@.service,invoker.env,tmpfiles.conf} "$tree/etc/"
	cp LICENSE NOTICE README.md CHANGELOG.md "$tree/"
	archive "$tree" "$dist/gpuwhisk-$VERSION-linux-$arch.tar.gz"
	"$work/own/cyclonedx-gomod" bin -json -std -noserial -notimestamp -version "$VERSION" \
		-output "$dist/gpuwhisk-$VERSION-linux-$arch.cdx.json" "$programs/gpuwhisk"
done
if [[ ${RELEASE:-} ]]; then
	collection "$dist/gpuwhisk-ansible-$VERSION.tar.gz"
	(cd "$dist" && LC_ALL=C && rm -f SHA256SUMS && sha256sum -- *.deb *.rpm *.tar.gz *.json >SHA256SUMS)
fi
ls -l "$dist"
