#!/usr/bin/env bash
# Runs every case under one build of the shim: run.sh DIRECTORY [PRELOAD-FIRST].
# DIRECTORY holds libgpuwhisk.so, the programs, and fake10 to fake13 with the
# drivers. PRELOAD-FIRST is a sanitizer's runtime. EMULATOR runs programs of
# another processor, like "qemu-aarch64 -L /usr/aarch64-linux-gnu"; what this
# machine's own programs do is left out then. SHORT=1 tries only how programs and
# neighbours reach the newest driver. JOBS cases run side by side. PART=1/3 tries each third
# case, beginning with the first. Prints what failed,
# and the last line is "N passed, N failed" with their names.
set -u
dir=$(cd "$1" && pwd)
runtime=${2:-}
here=$(cd "$(dirname "$0")" && pwd)
top=$(mktemp -d)
trap 'rm -rf "$top"' EXIT
emulator=${EMULATOR:-} part=${PART:-1/1} seen=0 names=() most=${JOBS:-$(($(nproc) * 2))}
export ASAN_OPTIONS=detect_leaks=0:abort_on_error=0:exitcode=99
# At its end a program is given a while for races of the end, a second unless set.
export TSAN_OPTIONS=atexit_sleep_ms=100:halt_on_error=0:exitcode=98:suppressions=$here/tsan.supp
export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1

# side NAME COMMAND...: runs a case beside others, in a folder of its own, $work,
# once there is a place for it.
side() {
	local name=$1
	shift
	((seen++ % ${part#*/} == ${part%/*} - 1)) || return 0
	while (($(jobs -rp | wc -l) >= most)); do wait -n; done
	names+=("$name")
	work=$top/${#names[@]}
	mkdir "$work"
	(
		"$@" >>"$work/out" 2>&1
		echo $? >"$work/code"
	) &
}

# under PRELOAD ENV... -- COMMAND...: run with the shim among the preloads.
under() {
	local preload=$1
	shift
	local vars=()
	while [ "$1" != -- ]; do vars+=("$1"); shift; done
	shift
	rm -f "$work/s"
	local load=(LD_PRELOAD="${runtime:+$runtime:}$preload" LD_LIBRARY_PATH="$dir/${fake:-fake13}:$dir/nvml")
	local run=(env "${load[@]}" GPUWHISK_SHIM_SOCKET="$work/s" GPUWHISK_SHIM_LOG=2 "${vars[@]}")
	if [ -n "$emulator" ]; then
		local setting=()
		for v in "${load[@]}"; do setting+=(-E "$v"); done
		# shellcheck disable=SC2206 # the emulator's own arguments
		run=("${run[@]:3}" timeout 300 $emulator "${setting[@]}")
		run=(env "${run[@]}")
	else
		run+=(timeout 300)
	fi
	"${run[@]}" "$@"
}

shim=$dir/libgpuwhisk.so
# one NAME... [ENV=...]: a case by its name and arguments.
one() {
	local vars=() args=()
	for word in "$@"; do
		case $word in *=*) vars+=("$word") ;; *) args+=("$word") ;; esac
	done
	side "$*" under "$shim" "${vars[@]}" A=1 -- "$dir/shimtest" "${args[@]}"
}

# Routes: how a program gets at the driver, by the age of the driver, and with
# other pointers from cuGetProcAddress than from dlsym.
if [ -z "${SHORT:-}" ]; then
	fake=fake10 one route dlsym
	fake=fake11 one route gpa1
	fake=fake11 one route dlsym
	fake=fake12 one route gpa2
	fake=fake12 one route dlsym
fi
splits=(0 1) routes=(dlsym gpa1 gpa2)
[ -z "${SHORT:-}" ] || splits=(1) routes=(dlsym)
for split in "${splits[@]}"; do
	one route dlsym FAKE_CUDA_SPLIT=$split
	one route gpa1 FAKE_CUDA_SPLIT=$split
	one route gpa2 FAKE_CUDA_SPLIT=$split
	one covered dlsym FAKE_CUDA_SPLIT=$split
	one covered gpa1 FAKE_CUDA_SPLIT=$split
	one covered gpa2 FAKE_CUDA_SPLIT=$split
done
side "route linked" under "$shim" A=1 -- "$dir/shimtest-linked" route linked
for route in "${routes[@]}"; do one launch_path $route; done
side "launch_path linked" under "$shim" A=1 -- "$dir/shimtest-linked" launch_path linked
if [ -z "$emulator" ] && command -v python3 >/dev/null; then
	side "route of python's ctypes" under "$shim" A=1 -- python3 "$here/route.py"
fi

# The functions that the examples show, the way a proxy runs them.
if [ -z "$emulator" ] && command -v python3 >/dev/null; then
	side "the function in python" under "$shim" A=1 -- python3 -c "
import sys; sys.path.insert(0, '$here/../examples'); sys.dont_write_bytecode = True
import gpufunc
first, second = gpufunc.main({'bytes': 1 << 20}), gpufunc.main({'bytes': 1 << 20})
assert first['cold'] and first['correct'], first
assert not second['cold'] and second['intact'] and second['correct'], second
assert 'error' in gpufunc.main({'bytes': 0})"
fi
function_in_c() { under "$shim" A=1 -- "$dir/gpufunc" | tee /dev/stderr | grep -q '"correct": true'; }
side "the function in C" function_in_c

# Neighbours in LD_PRELOAD, on either side.
neighbour() {
	under "$1" A=1 -- "${@:2}" || return
	grep -q 'neighbour took part' "$work/out"
}
for n in exports lookup middle early; do
	program=$dir/shimtest route=dlsym
	[ $n = exports ] && program=$dir/shimtest-linked route=linked
	for list in "$shim:$dir/lib$n.so" "$dir/lib$n.so:$shim"; do
		# A lookup without a tail jump cannot come before a sanitizer's start.
		[ $n = lookup ] && [ -n "$runtime" ] && continue
		side "neighbour $n, ${list##*/} last" neighbour "$list" "$program" route $route
	done
done

# summary waits for all, shows the output of what failed, and counts.
summary() {
	local i failed=() code
	wait
	for i in "${!names[@]}"; do
		work=$top/$((i + 1))
		code=$(cat "$work/code" 2>/dev/null || echo none)
		[ "$code" != 0 ] || continue
		failed+=("${names[i]}")
		echo "FAILED ($code): ${names[i]}"
		sed 's/^/    /' "$work/out" | head -60
	done
	echo "$((${#names[@]} - ${#failed[@]})) passed, ${#failed[@]} failed${failed[*]:+: }$(IFS=';'; echo "${failed[*]}")"
	[ ${#failed[@]} -eq 0 ]
	exit
}
[ -z "${SHORT:-}" ] || summary

slow=FAKE_CUDA_BANDWIDTH=400000000 chunk=GPUWHISK_SHIM_CHUNK=4194304
slowest="FAKE_CUDA_BANDWIDTH=2000000 GPUWHISK_SHIM_CHUNK=65536"
one fault
one gate
one arena
one grows
one tail
one truth $([ -z "$runtime$emulator" ] && echo 30 || echo 5)
one kept FAKE_CUDA_MEMORY=67108864
one strict
one graph_kernels
one speeds FAKE_CUDA_BANDWIDTH=83886080 FAKE_CUDA_BANDWIDTH_OUT=41943040 FAKE_CUDA_BANDWIDTH_FIRST=20971520
[ -n "$emulator" ] || one neighbours FAKE_CUDA_MEMORY=67108864 FAKE_CUDA_STATE="$top/state"
for name in free_there free_when_asked; do
	[ -n "$emulator" ] || one $name GPUWHISK_SHIM=count GPUWHISK_SHIM_LIMIT=62914560 FAKE_CUDA_MEMORY=67108864 FAKE_CUDA_STATE="$top/state-$name"
done
one cancel $slowest
one partial $slow $chunk
# Chunks of 0.4 s, and the device begins with an order 40 ms after it: a shim with
# one chunk at a time under way fills 91 %. An emulator or a sanitizer takes too much.
if [ -z "$runtime$emulator" ]; then
	for way in out in "out in"; do
		one fills_link 48 $way FAKE_CUDA_BANDWIDTH=20000000 GPUWHISK_SHIM_CHUNK=8388608 FAKE_CUDA_ORDER_NS=40000000 GPUWHISK_SHIM_SOCKET=s
	done
fi
one refused 1 FAKE_CUDA_FAIL=cuMemPrefetchAsync_v2:2:1
one refused 2 FAKE_CUDA_FAIL=cuMemPrefetchAsync_v2:1:2
one refused 719 FAKE_CUDA_FAIL=cuStreamSynchronize:1:719
# Every sort of failure of every call; fewer of them, and each call for itself,
# where a process takes long: 26 of them under TSan were near a case's limit of time
# on a busy machine.
if [ -z "$runtime$emulator" ]; then
	one failing 2 4
else
	for call in 0 1 2 3 4 5 6 7 8 9 10 11 12; do one failing 1 1 $call; done
fi
one frees_meanwhile
one race $slow GPUWHISK_SHIM_CHUNK=1048576
one storm "${STORM:-200}" GPUWHISK_SHIM_CHUNK=65536
one storm 25 kept GPUWHISK_SHIM_CHUNK=65536
one many
one disguise
one limit
one limit_host
one limit_array
one limit_reported FAKE_CUDA_FAIL=cuMemGetInfo_v2:4:700
one limit_pools FAKE_CUDA_POOL_CHUNK=33554432
one limit_pool_asked FAKE_CUDA_POOL_CHUNK=33554432
one limit_graphs
one pitch
one pitch_limit 512
one pitch_limit 512 GPUWHISK_SHIM=count
one pitch_limit 1024 GPUWHISK_SHIM=count FAKE_CUDA_PITCH=1024
one nvml FAKE_NVML_SCRIPT="$top/nvml"
one nvml_use FAKE_NVML_SCRIPT="$top/nvml-use"
side "nvml linked" under "$shim" FAKE_NVML_SCRIPT="$top/nvml-linked" -- "$dir/shimtest-linked" nvml linked
side "nvml_use linked" under "$shim" FAKE_NVML_SCRIPT="$top/nvml-use-linked" -- "$dir/shimtest-linked" nvml_use linked
one limit_threads
one limit_late
one limit_asked
one cancels
one wrong_free
one refused_free FAKE_CUDA_FAIL=cuMemFree_v2:1:719
one alloc_fails 2 FAKE_CUDA_FAIL=cuMemAllocManaged:1:2
one alloc_fails 801 FAKE_CUDA_FAIL=cuMemAllocManaged:0:801
one refuses_alloc 1 FAKE_CUDA_FAIL=cuMemAllocManaged:1:1
one refuses_alloc 999 FAKE_CUDA_FAIL=cuMemAllocManaged:0:999
one refuses_alloc 719 pitch FAKE_CUDA_FAIL=cuMemAllocManaged:1:719
one refuses_nothing 2 FAKE_CUDA_FAIL=cuMemAllocManaged:1:2
one refuses_nothing 801 FAKE_CUDA_FAIL=cuMemAllocManaged:0:801
one refuses_again FAKE_CUDA_FAIL=cuMemAllocManaged:0:1
one refuses_share
one refuses_share range
for code in 700 719 999; do
	for way in name text end move; do one refuses_moved $code $way FAKE_CUDA_MOVED=$code; done
	one refuses_exit $code FAKE_CUDA_MOVED=$code
	for way in text end; do one refuses_unmoved $code $way FAKE_CUDA_MANAGED=$code; done
	one refuses_unmoved $code text GPUWHISK_SHIM=count
done
one pools
one stays FAKE_CUDA_CONCURRENT=0
one captured
one physical
one exported
one mapped
one locations
one unmap_mixed
one handles
one handle_contents
one unmapped kernel
one unmapped busy
vmm="GPUWHISK_SHIM=vmm GPUWHISK_SHIM_CHUNK=4194304"
for route in dlsym gpa1 gpa2; do one covered $route $vmm; done
for name in moves gate graph run capture busy shared context thread_end; do one vmm_$name $vmm; done
for name in moves shared no_context; do one own_$name $vmm; done
one vmm_full $vmm FAKE_CUDA_MEMORY=16777216
gives_up() {
	under "$shim" $vmm FAKE_CUDA_MEMORY=16777216 GPUWHISK_SHIM_GATE_MS=200 -- "$dir/shimtest" vmm_gives_up || return
	grep -q 'no room for memory that was moved out.* returns out of memory after 200 ms' "$work/out"
}
side "a launch gives up, and the log says so" gives_up
speed=FAKE_CUDA_BANDWIDTH=83886080
one arena_pinned $vmm GPUWHISK_SHIM_ARENA=8388608 $speed
one arena_ring 1 GPUWHISK_SHIM=vmm FAKE_CUDA_PINNABLE=16777216 $speed
one arena_ring 4 GPUWHISK_SHIM=vmm FAKE_CUDA_PINNABLE=8388608 $speed
one arena_file $vmm GPUWHISK_SHIM_ARENA=12582912
one arena_no_file $vmm
# 10,000 steps, fewer where a process takes long.
few=$([ -z "$runtime$emulator" ] || echo 150)
for seed in 1 2 3 4; do
	one random_steps "${few:-2500}" $seed $vmm
	one random_steps "${few:-2500}" $seed
done
one storm "${STORM:-200}" $vmm GPUWHISK_SHIM_ARENA=16777216
one storm 25 kept $vmm GPUWHISK_SHIM_ARENA=16777216
for name in fault gate captured pools physical exported unmap_mixed own_prefetch loss absent handles refuses_share; do
	one $name $vmm
done
# 40,000 blocks of 200 MiB take too long under a sanitizer.
[ -n "$runtime$emulator" ] || one limit_threads GPUWHISK_SHIM=vmm
one race $slow $vmm
one reset_race $vmm FAKE_CUDA_BANDWIDTH=4000000000
one exits_in_handler $([ -z "$runtime$emulator" ] && echo 40 || echo 8) $vmm
side "route linked, vmm" under "$shim" $vmm -- "$dir/shimtest-linked" route linked
side "vmm_gate linked" under "$shim" $vmm -- "$dir/shimtest-linked" vmm_gate linked
one pins FAKE_CUDA_PIN_NS=1000000 FAKE_CUDA_PINNABLE=8388608
one formats
one others
one own_prefetch
one forks
one fork_first
# An emulated program starts others as this machine's.
[ -n "$emulator" ] || one execs
[ -n "$emulator" ] || one vforks
one closes
one loads "$dir/libloaded.so"
one loads_first "$dir/libloaded.so"
one ends_at_once
one exits_in_handler $([ -z "$runtime$emulator" ] && echo 40 || echo 8)
one reset
one green
one reset_table
one reset_table unseen
one reset_table unseen order
one reset_race FAKE_CUDA_BANDWIDTH=4000000000 GPUWHISK_SHIM_CHUNK=65536
one capture
one loss
one torn
one malformed
one noise 1
one noise 2
one version
one heartbeat $slowest
one heartbeat FAKE_CUDA_BANDWIDTH=4000000
one alive FAKE_CUDA_BANDWIDTH=800000
one full
one backlog
one absent GPUWHISK_SHIM_SOCKET=/
one absent GPUWHISK_SHIM_SOCKET="$shim"
one closes_all
one wakes_once
one standard_descriptors
one absent
one count GPUWHISK_SHIM=count
one untouched GPUWHISK_SHIM=off
one untouched GPUWHISK_SHIM_SOCKET=
one untouched GPUWHISK_SHIM=nonsense
# A device without any managed call, and a driver that refuses our stream.
one absent FAKE_CUDA_FAIL=cuStreamCreateWithPriority:0:2
one absent FAKE_CUDA_FAIL=cuInit:2:3
# Another version: logged once.
logged_once() {
	under "$shim" A=1 -- "$dir/shimtest" version || return
	[ "$(grep -c 'the invoker has version' "$work/out")" -eq 1 ]
}
side "version, logged once" logged_once

# A library that cannot be loaded leaves the program as it is; one that may not
# be executed can.
printf 'no library' >"$top/garbage.so"
: >"$top/empty.so"
cp "$shim" "$top/plain.so"
chmod 444 "$top/plain.so"
for lib in missing garbage empty; do
	side "a library that is $lib" under "$top/$lib.so" A=1 -- "$dir/shimtest" untouched
done
side "a library without the right to execute" under "$top/plain.so" A=1 -- "$dir/shimtest" route

# Programs on musl, which ends a program over a preload that does not fit.
if [ -n "$runtime$emulator" ]; then
	: # neither fits
elif command -v musl-gcc >/dev/null; then
	on_musl() {
		musl-gcc $([ $1 = static ] && echo -static) -o "$work/musl" "$here/musl.c" &&
			under "$shim" A=1 -- "$work/musl" $([ $1 = static ] && echo static)
	}
	for kind in dynamic static; do side "a $kind program on musl" on_musl $kind; done
elif [ "${GPUWHISK_REQUIRE_PEERS:-}" = 1 ]; then
	side "programs on musl: musl-gcc is needed to try the shim there" false
else
	echo "without musl-gcc: programs on musl are not tried (apt-get install musl-tools)"
fi

# A program that has nothing to do with CUDA.
if [ -z "$emulator" ]; then
	side "a program without CUDA" under "$shim" A=1 -- sh -c 'test "$(echo hello | tr a-z A-Z)" = HELLO'
fi

summary
