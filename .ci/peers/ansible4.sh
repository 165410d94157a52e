#!/bin/bash
# The Ansible version that OpenWhisk's README names for its playbooks, from PyPI, with the
# other packages named there. Later versions refuse the playbooks' conditions and settings. It
# is no daemon: start only installs.
. "$(dirname "$0")/lib.sh"

ansible=4.1.0
dir=$peers/ansible-$ansible

fetch() {
	python3 -m venv --copies "$1/venv" >&2 &&
		retry 4 "$1/venv/bin/pip" install -q --disable-pip-version-check setuptools wheel "ansible==$ansible" jinja2==3.0.1 docker==5.0.0 requests==2.25.1 six==1.16.0
}

install() {
	need python3
	once "$dir" fetch || fail "download of ansible $ansible by pip"
	moved "$dir/venv"
}

start() { install && env; }
env() {
	[[ -x $dir/venv/bin/moved ]] || fail "Ansible $ansible is not installed"
	echo "GPUWHISK_TEST_ANSIBLE_4=$dir/venv"
}
stop() { :; }

command_of "$@"
