# shellcheck shell=bash
# Sourced by what runs tests or benchmarks: up PEER... starts peers that do not
# run already, and evaluates the lines that they print. Those end with the caller's shell.

started=()
finish() {
	local p
	for p in "${started[@]}"; do .ci/peers/"$p".sh stop >/dev/null 2>&1; done
}
trap finish EXIT

# up PEER... goes on without a peer that cannot be started, or fails where
# GPUWHISK_REQUIRE_PEERS=1 demands all of them.
up() {
	local peer lines
	for peer in "$@"; do
		echo "starting $peer ..." >&2
		if lines=$(.ci/peers/"$peer".sh env 2>/dev/null) ||
			{ lines=$(.ci/peers/"$peer".sh start) && started+=("$peer"); }; then
			while IFS= read -r line; do [[ -z $line ]] || export "${line?}"; done <<<"$lines"
			continue
		fi
		if [[ ${GPUWHISK_REQUIRE_PEERS:-} == 1 ]]; then
			echo "FAILED: the test peer $peer could not be started; see the lines above" >&2
			exit 1
		fi
		echo "without $peer: what needs it will be skipped (see the lines above for what is missing)" >&2
	done
}
