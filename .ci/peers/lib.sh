# shellcheck shell=bash
# Functions the peer scripts share. A peer is a real part that tests connect to:
# each has a script with the same commands:
#
#   install   fetch what is needed into build/peers/NAME (nothing if there)
#   start     install, start a daemon by hand, print NAME=VALUE lines for tests
#   env       print the same lines for a peer that is running
#   stop      end what start began, and only that
#
# Only NAME=VALUE lines go to standard output, so a caller may eval them; all
# else goes to standard error, and a failure closes with one line that says
# what failed and where its log is.

set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# GPUWHISK_PEERS moves the cache, for instance to share it between checkouts.
peers=${GPUWHISK_PEERS:-$(cd "$here/../.." && pwd)/build/peers}

say() { echo "peers: $*" >&2; }

fail() {
	echo "peers: FAILED: $*" >&2
	exit 1
}

# need COMMAND... fails by name when a tool of the machine is missing.
need() {
	local c
	for c in "$@"; do
		command -v "$c" >/dev/null || fail "$c is not installed on this machine"
	done
}

# moved VENV corrects the programs of a Python environment, whose first line names
# the folder in which it was made (see once).
moved() {
	[[ -x $1/bin/moved ]] || {
		grep -lIs "^#!.*/venv/bin/python" "$1"/bin/* | xargs sed -i "1s|^#!.*/venv/bin/python.*|#!$1/bin/python3|" &&
			ln -s python3 "$1/bin/moved"
	}
}

# retry N COMMAND... runs a download up to N times, with pauses that grow: a
# registry that stumbles once must not fail a whole run.
retry() {
	local tries=$1 i
	shift
	for ((i = 1; i <= tries; i++)); do
		"$@" >&2 && return 0
		say "try $i of $tries failed: $*"
		((i == tries)) || sleep $((i * 3))
	done
	return 1
}

# debian NAME... installs packages. Those of daemons would start one of their own;
# policy-rc.d forbids that for the while.
debian() {
	[[ $(id -u) == 0 ]] || fail "not installed, and only root can install it: $*"
	need apt-get
	retry 3 apt-get -q update || fail "apt-get update"
	retry 3 quietly "$@" || fail "apt-get install $*"
}

quietly() {
	local policy=/usr/sbin/policy-rc.d mine= rc=0
	if [[ ! -e $policy ]]; then
		printf '#!/bin/sh\nexit 101\n' >"$policy"
		chmod +x "$policy"
		mine=$policy
	fi
	DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=300 \
		install --no-install-recommends "$@" || rc=$?
	[[ -z $mine ]] || rm -f "$mine"
	return $rc
}

# once DIR COMMAND... fills DIR by COMMAND unless an earlier call did. The
# command gets a fresh folder, which takes DIR's name only when it is whole, so
# an interrupted download never passes for a finished one.
once() {
	local dir=$1 part
	shift
	mkdir -p "$(dirname "$dir")"
	exec 8>"$dir.lock"
	flock 8
	if [[ ! -d $dir ]]; then
		rm -rf "$dir".part.*
		part=$(mktemp -d "$dir.part.XXXXXX")
		if ! "$@" "$part"; then
			rm -rf "$part"
			return 1
		fi
		mv "$part" "$dir"
	fi
	exec 8>&-
}

# maven INTO GROUP:NAME:VERSION... puts artifacts and all they need at run time
# into a folder.
maven() {
	local into=$1 pom rc=0 c group name version
	shift
	pom=$(mktemp -d)
	{
		echo '<project><modelVersion>4.0.0</modelVersion>'
		echo '<groupId>peers</groupId><artifactId>peers</artifactId><version>1</version>'
		echo '<dependencies>'
		for c in "$@"; do
			IFS=: read -r group name version <<<"$c"
			echo "<dependency><groupId>$group</groupId><artifactId>$name</artifactId><version>$version</version></dependency>"
		done
		echo '</dependencies></project>'
	} >"$pom/pom.xml"
	retry 4 mvn -q -B -f "$pom/pom.xml" \
		org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies \
		-DincludeScope=runtime "-DoutputDirectory=$into" || rc=$?
	rm -rf "$pom"
	return $rc
}

# free_port prints a port of the loopback on which no program listens. It avoids the ephemeral
# range, from which a client's own socket could take the port, and the range below, from which
# tests and action proxies take theirs. A daemon may take seconds until it listens; until then
# no other script of this machine gets the port. If two scripts chose the same port, one would
# connect to the other's daemon.
free_port() {
	local p low=61000 given=/tmp/gpuwhisk-ports
	(($(awk '{print $2}' /proc/sys/net/ipv4/ip_local_port_range) < low)) || low=5000
	mkdir -p -m 1777 "$given" || return 1
	find "$given" -mindepth 1 -mmin +15 -delete 2>/dev/null || true
	while :; do
		p=$((low + RANDOM % 4500))
		(: >"/dev/tcp/127.0.0.1/$p") 2>/dev/null && continue
		(set -o noclobber && : >"$given/$p") 2>/dev/null && break
		[[ -e $given/$p ]] || return 1
	done
	echo "$p"
}

# open_port PORT [HOST] reports whether a program listens there.
open_port() { (exec 3<>"/dev/tcp/${2:-127.0.0.1}/$1") 2>/dev/null; }

# daemon DIR COMMAND... starts COMMAND detached from the caller's terminal and process group.
# Its pid is in DIR/pid and its output in DIR/log. It inherits no other open file, because an
# inherited lock file would hold the lock for its whole life.
daemon() {
	local dir=$1 fd
	shift
	(
		for fd in /proc/$BASHPID/fd/*; do
			fd=${fd##*/}
			((fd <= 2)) || eval "exec $fd>&-"
		done
		exec setsid "$@"
	) >"$dir/log" 2>&1 </dev/null &
	echo $! >"$dir/pid"
}

# alive DIR reports whether the daemon of DIR runs. A pid that was given to another
# process since is recognized by its start time.
alive() {
	local pid
	pid=$(cat "$1/pid" 2>/dev/null) || return 1
	[[ -d /proc/$pid ]] || return 1
	[[ ! -f $1/born || $(born "$pid") == "$(cat "$1/born")" ]]
}

born() { awk '{print $22}' "/proc/$1/stat" 2>/dev/null; }

# await DIR SECONDS COMMAND... waits until COMMAND succeeds while the daemon of
# DIR lives, and stores when that daemon was started. A busy machine starts a Kafka
# in a minute that takes five seconds at rest.
await() {
	local dir=$1 ends=$((SECONDS + $2))
	shift 2
	born "$(cat "$dir/pid")" >"$dir/born"
	until "$@" 2>/dev/null; do
		alive "$dir" || return 1
		((SECONDS < ends)) || return 1
		sleep 0.1
	done
}

# end DIR stops the daemon of DIR: politely, then after ten seconds for good.
# When it returns, no process writes to DIR any more.
end() {
	local dir=$1 pid i
	alive "$dir" || { rm -f "$dir/pid"; return 0; }
	pid=$(cat "$dir/pid")
	kill "$pid" 2>/dev/null || true
	for ((i = 0; i < 100; i++)); do
		alive "$dir" || break
		sleep 0.1
	done
	kill -9 "$pid" 2>/dev/null || true
	for ((i = 0; i < 100; i++)); do
		alive "$dir" || break
		sleep 0.1
	done
	rm -f "$dir/pid" "$dir/born"
}

# fresh DIR creates the folder of a daemon. It deletes the remains of an interrupted daemon,
# whose port another program may have by now. GPUWHISK_KEEP=1 keeps them, so that clients see
# a restart.
fresh() {
	[[ ${GPUWHISK_KEEP:-} == 1 ]] || rm -rf "$1"
	mkdir -p "$1"
}

# tail_of LOG shows the end of a daemon's log before a failure is named.
tail_of() { tail -n 20 "$1" >&2 || true; }

# command_of is the tail of every peer script: it runs the asked command.
command_of() {
	case ${1:-} in
	install | start | env | stop) "$1" ;;
	*) fail "usage: $0 install|start|env|stop" ;;
	esac
}
