#!/bin/bash
# A registry of images that requires a login: Debian's docker-registry, on a free
# port of the loopback, to which Docker connects without TLS.
. "$(dirname "$0")/lib.sh"

dir=${GPUWHISK_REGISTRY_DIR:-$peers/registry}

install() {
	if command -v docker-registry >/dev/null; then return 0; fi
	debian docker-registry curl
}

# It requires the login, and answers 401 without.
answers() { [[ $(curl -s -m 5 -o /dev/null -w '%{http_code}' "http://127.0.0.1:$(cat "$dir/port")/v2/") == 401 ]]; }

start() {
	if alive "$dir"; then
		env
		return 0
	fi
	install
	need curl
	fresh "$dir"
	[[ -f $dir/port ]] || free_port >"$dir/port"
	# bcrypt of the password that env prints.
	echo 'pull:$2a$05$BTSuYmVJdpeyvU.58MBYResBVned1PRgunEcH055sWT0yoxcmx3O.' >"$dir/htpasswd"
	cat >"$dir/config.yml" <<-CONF
		version: 0.1
		log: {level: warn}
		storage: {filesystem: {rootdirectory: $dir/data}}
		http: {addr: 127.0.0.1:$(cat "$dir/port")}
		auth: {htpasswd: {realm: test, path: $dir/htpasswd}}
	CONF
	daemon "$dir" docker-registry serve "$dir/config.yml"
	if ! await "$dir" 180 answers; then
		tail_of "$dir/log"
		end "$dir"
		fail "docker-registry does not start; its log is $dir/log"
	fi
	env
}

env() {
	alive "$dir" || fail "no registry of ours is running"
	echo "GPUWHISK_TEST_REGISTRY=127.0.0.1:$(cat "$dir/port")"
	echo "GPUWHISK_TEST_REGISTRY_LOGIN=pull:of a test"
}

stop() {
	end "$dir"
	[[ ${GPUWHISK_KEEP:-} == 1 ]] || rm -rf "$dir"
}

command_of "$@"
