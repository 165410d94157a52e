#!/bin/bash
# Ansible with the Docker modules, from PyPI, in a virtual environment of its
# own. No daemon: start only installs. Of the large package that carries the
# modules only these are kept.
. "$(dirname "$0")/lib.sh"

core=2.19.14 bundle=12.3.0 lint=26.10.1
dir=$peers/ansible-$core

fetch() {
	local into=$1 tmp
	tmp=$(mktemp -d)
	python3 -m venv --copies "$into/venv" >&2 &&
		retry 4 "$into/venv/bin/pip" install -q --disable-pip-version-check "ansible-core==$core" "ansible-lint==$lint" requests &&
		retry 4 "$into/venv/bin/pip" download -q --disable-pip-version-check --no-deps -d "$tmp" "ansible==$bundle" &&
		"$into/venv/bin/python" - "$tmp"/*.whl "$into/collections" <<-'PY'
			import sys, zipfile
			wheel, into = sys.argv[1:]
			keep = ("ansible_collections/community/docker/", "ansible_collections/community/library_inventory_filtering_v1/")
			with zipfile.ZipFile(wheel) as z:
			    z.extractall(into, [n for n in z.namelist() if n.startswith(keep) and "/tests/" not in n])
		PY
	local rc=$?
	rm -rf "$tmp"
	return $rc
}

install() {
	need python3
	once "$dir" fetch || fail "download of ansible-core $core by pip"
	moved "$dir/venv"
}

start() { install && env; }
env() {
	[[ -x $dir/venv/bin/moved ]] || fail "Ansible is not installed"
	echo "GPUWHISK_TEST_ANSIBLE=$dir"
}
stop() { :; }

command_of "$@"
