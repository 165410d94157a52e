#!/bin/sh
# Builds the images of the action proxies from this machine's own interpreters,
# without a network: a root file system with the interpreter, the libraries it
# is linked with, a shell and little else, imported as an image.
#
#   build.sh [python3] [nodejs] [native]      all three without arguments
#   build.sh python3-gpu                      with CuPy and the CUDA libraries:
#                                             pip fetches 1.1 GB from PyPI
#
# PYTHON, NODE   interpreters to take (default: /usr/bin/python3 or the first
#                on PATH, and the first node on PATH)
# PREFIX, TAG    image names, default gpuwhisk/action- and latest
# DOCKER         the docker command; DOCKER_HOST is heeded by it
#
# With a network the Dockerfiles beside the proxies do the same on the usual
# base images. An interpreter must not be newer than the kernel and C library
# it will meet; both come along, so the image runs wherever this machine's
# binaries run.
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
: "${DOCKER:=docker}" "${PREFIX:=gpuwhisk/action-}" "${TAG:=latest}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM

# tools that scripts expect besides a shell
TOOLS="cat cp cut date env expr head id ls mkdir mktemp mv od pwd rm rmdir sed
sleep sort tail tee touch tr uname uniq wc grep"

fail() {
	echo "build.sh: $*" >&2
	exit 1
}

# put FILE...: copies files to the same paths in the image, with links resolved
put() {
	for file; do
		mkdir -p "$root$(dirname "$file")"
		[ -e "$root$file" ] || cp -pL "$file" "$root$file"
	done
}

# put_linked FILE...: copies programs or libraries, with the libraries they are linked to
put_linked() {
	put "$@"
	for file; do
		ldd "$file" 2>/dev/null || true
	done | sed -n 's/.*=> \(\/[^ ]*\) .*/\1/p; s/^[[:space:]]*\(\/[^ ]*\) (.*/\1/p' |
		sort -u >"$work/libraries"
	while read -r linked; do
		put "$linked"
	done <"$work/libraries"
}

# put_libraries NAME...: copies libraries of this machine by name
put_libraries() {
	for name; do
		found=$(/sbin/ldconfig -p | sed -n "s/^[[:space:]]*$name (.*\(x86-64\|AArch64\).*=> //p" | head -n 1)
		[ -n "$found" ] || fail "this machine has no $name"
		put_linked "$found"
	done
}

# begin NAME: creates an empty root, with the links of a merged /usr if the host has
# them, so that each path means the same in the image
begin() {
	root=$work/$1
	mkdir -p "$root/etc" "$root/usr" "$root/root" "$root/tmp" "$root/proxy"
	chmod 1777 "$root/tmp"
	for name in bin sbin lib lib32 lib64; do
		if [ -L "/$name" ]; then
			mkdir -p "$root/usr/$name"
			ln -s "usr/$name" "$root/$name"
		fi
	done
	echo 'root:x:0:0:root:/root:/bin/sh
nobody:x:65534:65534:nobody:/nonexistent:/bin/false' >"$root/etc/passwd"
	echo 'root:x:0:
nogroup:x:65534:' >"$root/etc/group"
	echo 'hosts: files dns' >"$root/etc/nsswitch.conf"
	for file in /etc/ssl/certs/ca-certificates.crt /usr/share/zoneinfo/UTC; do
		[ ! -e "$file" ] || put "$file"
	done
	put_linked /bin/sh
	# Parts of old C libraries that are included in newer ones. Binaries for old C
	# libraries, such as the packaged shim and PyTorch, still need them by name.
	put_libraries libpthread.so.0 libdl.so.2 librt.so.1 libm.so.6 libutil.so.1 libresolv.so.2
}

# end NAME COMMAND [ENV]: imports the root as an image that starts with COMMAND
end() {
	tar -C "$root" --numeric-owner --owner=0 --group=0 -cf "$work/root.tar" .
	"$DOCKER" import \
		--change "ENV PATH=/usr/local/bin:/usr/bin:/bin LANG=C.UTF-8 ${3:-}" \
		--change 'EXPOSE 8080' --change 'WORKDIR /' --change "ENTRYPOINT $2" \
		"$work/root.tar" "$PREFIX$1:$TAG" >/dev/null
	rm -rf "$root" "$work/root.tar"
	echo "$PREFIX$1:$TAG"
}

# python3_root NAME: creates a root with Python and its proxy
python3_root() {
	python=${PYTHON:-/usr/bin/python3}
	[ -x "$python" ] || python=$(command -v python3) || fail "no python3 found"
	program=$("$python" -c 'import os, sys; print(os.path.realpath(sys.executable))')
	library=$("$python" -c 'import os; print(os.path.dirname(os.__file__))')
	begin "$1"
	put_linked "$program"
	mkdir -p "$root$library"
	# Tests, editors and installers are most of the library and are not needed here.
	tar -C "$library" --exclude=./test --exclude='./*/test' --exclude='./*/tests' \
		--exclude=./idlelib --exclude=./tkinter --exclude=./turtledemo \
		--exclude=./ensurepip --exclude=./lib2to3 --exclude='./config-*' \
		--exclude=./site-packages --exclude=./dist-packages -cf - . | tar -C "$root$library" -xf -
	find "$library" -name '*.so' ! -path '*-packages/*' >"$work/modules"
	while read -r module; do
		[ ! -e "$root$module" ] || put_linked "$module"
	done <"$work/modules"
	mkdir -p "$root/usr/bin"
	for name in python python3; do
		[ "$program" = "/usr/bin/$name" ] || ln -sf "$program" "$root/usr/bin/$name"
	done
	cp "$here/python3/proxy.py" "$root/proxy/"
}

python3_image() {
	python3_root python3
	end python3 '["/usr/bin/python3", "/proxy/proxy.py"]'
}

# Any Python's pip works: it downloads for the interpreter of the image.
python3_gpu_image() {
	python3_root python3-gpu
	version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
	packages=/usr/local/lib/gpu-packages
	python3 -m pip --version >/dev/null 2>&1 || fail "python3-gpu needs pip: on Debian, apt-get install python3-pip"
	python3 -m pip install --disable-pip-version-check --no-warn-conflicts --retries 5 \
		--only-binary=:all: --python-version "$version" --implementation cp \
		--platform manylinux_2_28_x86_64 --platform manylinux_2_27_x86_64 --platform manylinux2014_x86_64 \
		--platform manylinux_2_17_x86_64 --platform manylinux_2_12_x86_64 --platform manylinux2010_x86_64 \
		--target "$root$packages" -r "$here/python3-gpu/requirements.txt" >&2 ||
		fail "python3-gpu: pip could not install what is listed in $here/python3-gpu/requirements.txt"
	# Libraries that wheels expect on any Linux, in addition to those from begin.
	put_libraries libstdc++.so.6 libgcc_s.so.1
	(cd "$root" && ls -d ".$packages"/nvidia/*/lib) | sed 's/^\.//' >"$root/etc/ld.so.conf"
	/sbin/ldconfig -r "$root"
	end python3-gpu '["/usr/bin/python3", "/proxy/proxy.py"]' "PYTHONPATH=$packages"
}

nodejs_image() {
	node=${NODE:-$(command -v node || command -v nodejs)} || fail "no node found"
	program=$(readlink -f "$node")
	begin nodejs
	put_linked "$program"
	mkdir -p "$root/usr/bin"
	[ "$program" = /usr/bin/node ] || ln -sf "$program" "$root/usr/bin/node"
	cp "$here/nodejs/proxy.js" "$root/proxy/"
	end nodejs '["/usr/bin/node", "/proxy/proxy.js"]'
}

native_image() {
	begin native
	for tool in bash $TOOLS; do
		path=$(command -v "$tool") || continue
		case $path in
		/*) put_linked "$path" ;; # other commands are built into the shell
		esac
	done
	(cd "$here" && CGO_ENABLED=0 go build -trimpath -ldflags='-s -w' \
		-o "$root/proxy/gpuwhisk-native" ./native/cmd/gpuwhisk-native)
	mkdir -p "$root/action"
	end native '["/proxy/gpuwhisk-native"]'
}

[ $# -gt 0 ] || set -- python3 nodejs native
for name; do
	case $name in
	python3 | nodejs | native) "${name}_image" ;;
	python3-gpu) python3_gpu_image ;;
	*) fail "no image called $name: python3, nodejs, native or python3-gpu" ;;
	esac
done
