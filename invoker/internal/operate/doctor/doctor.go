// Package doctor examines a host and the services that its invoker connects to. It
// reports each result in one line: whether it is good, and if not, how to fix it.
//
// A check is a function from a snapshot to findings. It uses a Machine: files, commands
// and calls to the outside, each with a time limit. Answers that several checks need are
// gathered before the checks run. Doctor changes nothing on the host or elsewhere, with
// four short exceptions: the probe of an image runs a container, Docker's log settings and
// an image's C library are read from a container that is created and not started, the
// trial of the shim runs a program that uses a few MiB of the first GPU, and etcd grants a
// lease, which is returned. Doctor examines once and does not watch.
//
// While Examine runs, each check and each question has a goroutine. A goroutine without
// an answer in time is abandoned, because the process is expected to end soon.
package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Status is the result of a check.
type Status uint8

const (
	// Skip means that nothing was examined, because the part is not configured.
	Skip Status = iota
	// OK means that no action is needed.
	OK
	// Warn means that the part works, but not well, or not for long.
	Warn
	// Fail means that the part will not work.
	Fail
)

// String returns the name of a status.
func (s Status) String() string { return [...]string{"skipped", "ok", "warn", "fail"}[s] }

// MarshalText returns the name, for JSON.
func (s Status) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Finding is a single result of a check, with the way to fix a problem.
type Finding struct {
	Status Status `json:"status"`
	Found  string `json:"found"`
	Fix    string `json:"fix,omitempty"`
}

// Result is a finding with the name of its check.
type Result struct {
	Group string `json:"group"`
	Check string `json:"check"`
	Finding
}

// Report holds all findings, in the order of the checks.
type Report []Result

// worst returns the worst status of a report.
func (r Report) worst() Status {
	worst := OK
	for _, x := range r {
		worst = max(worst, x.Status)
	}
	return worst
}

// ExitCode returns the exit status of the process: 0 all well, 1 warnings, 2 failures.
func (r Report) ExitCode() int { return int(r.worst() - OK) }

// checker is a check of the snapshot. It may return several findings, or none if it does
// not apply. docs/doctor.md explains each check.
type checker struct {
	group, name string
	when        func(*snapshot) bool // nil: always
	find        func(*snapshot) []Finding
}

// checks returns all checks, in the order of the report.
func checks() []checker {
	return []checker{
		{"GPU", "driver", nil, checkDriver},
		{"GPU", "device nodes", (*snapshot).hasDriver, checkNodes},
		{"GPU", "UVM module", (*snapshot).hasDriver, checkUVM},
		{"GPU", "NVML", (*snapshot).hasDriver, checkNVML},
		{"GPU", "device", nil, checkCards},
		{"GPU", "persistence", nil, checkPersistence},
		{"GPU", "compute mode", nil, checkComputeMode},
		{"GPU", "MIG", nil, checkMIG},
		{"GPU", "free memory", nil, checkFreeMemory},
		{"GPU", "MPS", (*snapshot).hasDriver, checkMPS},
		{"GPU", "toolkit", nil, checkToolkit},
		{"GPU", "CDI", (*snapshot).gpuInContainers, checkCDI},
		{"GPU", "CDI devices", (*snapshot).gpuByContainerd, checkDevices},
		{"GPU", "Docker runtime", (*snapshot).gpuByDocker, checkGPURuntime},
		{"GPU", "daemon-reload", (*snapshot).gpuByDocker, checkReload},
		{"GPU", "shim", nil, checkShim},
		{"GPU", "shim sockets", (*snapshot).gpuInContainers, checkSockets},
		{"GPU", "shim in image", nil, checkShimImages},
		{"GPU", "fallbacks", nil, checkFallbacks},
		{"Containers", "engine", nil, checkEngine},
		{"Containers", "runc", (*snapshot).usesContainerd, checkRunc},
		{"Containers", "bridge", (*snapshot).usesContainerd, checkBridge},
		{"Containers", "storage", (*snapshot).dockerAnswers, checkStorage},
		{"Containers", "logs", (*snapshot).dockerAnswers, checkLogs},
		{"Containers", "runtimes", nil, checkManifest},
		{"Containers", "images", (*snapshot).dockerAnswers, checkImages},
		{"Containers", "network", (*snapshot).dockerAnswers, checkNetwork},
		{"Containers", "probe", (*snapshot).usesContainers, checkProbes},
		{"Host", "port", nil, checkPort},
		{"Host", "memory", nil, checkMemory},
		{"Host", "disk", nil, checkDisk},
		{"Host", "state", (*snapshot).configured, checkState},
		{"Settings", "configuration", nil, checkConfiguration},
		{"Settings", "mode", nil, checkMode},
		{"Settings", "admin login", (*snapshot).configured, checkLogin},
		{"Settings", "certificates", (*snapshot).configured, checkCertificates},
		{"Settings", "logins", (*snapshot).configured, checkLogins},
		{"Settings", "ignored", (*snapshot).configured, checkIgnored},
		{"Kafka", "brokers", nil, checkBrokers},
		{"Kafka", "addresses", (*snapshot).kafkaAnswers, checkAdvertised},
		{"Kafka", "topics", (*snapshot).kafkaAnswers, checkTopics},
		{"etcd", "members", (*snapshot).scheduled, checkEtcd},
		{"etcd", "lease", (*snapshot).etcdAnswers, checkLease},
		{"etcd", "schedulers", (*snapshot).etcdAnswers, checkSchedulers},
		{"etcd", "tags", (*snapshot).scheduled, checkTags},
		{"CouchDB", "server", nil, checkCouch},
		{"CouchDB", "databases", (*snapshot).couchAnswers, checkDatabases},
		{"CouchDB", "views", (*snapshot).couchAnswers, checkViews},
		{"Stores", "records", (*snapshot).recordsElsewhere, checkRecords},
		{"Stores", "code", (*snapshot).codeInS3, checkBucket},
		{"ZooKeeper", "numbers", nil, checkZooKeeper},
	}
}

// slow lists the checks that run a program or container, and have the time of
// ProbeLimit.
var slow = []string{"shim", "shim in image", "network", "probe"}

// Examine asks all questions at the same time, each with the time limit, and reports the
// findings of all checks.
func Examine(ctx context.Context, m *Machine, limit time.Duration) Report {
	s := gather(ctx, m, limit)
	reports := each(checks(), func(c checker) Report {
		if slices.Contains(slow, c.name) {
			return s.judge(ctx, c, max(limit, m.ProbeLimit))
		}
		return s.judge(ctx, c, limit)
	})
	return m.masked(slices.Concat(reports...))
}

// judge runs one check. A check should end within the limit, but it may block longer,
// for example on a file system that does not answer.
func (s snapshot) judge(ctx context.Context, c checker, limit time.Duration) (r Report) {
	const grace = time.Second // time to report the missing answer
	found, err := bounded(ctx, limit+grace, func(ctx context.Context) ([]Finding, error) {
		if c.when != nil && !c.when(&s) {
			return nil, nil
		}
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		s.ctx = ctx
		return c.find(&s), nil
	})
	if err != nil {
		found = fail("find the file system or device that does not answer", "the check got no answer: %v", err)
	}
	for _, f := range found {
		r = append(r, Result{c.group, c.name, f})
	}
	return r
}

// ok, warn, fail and skip each return a single finding, in the form that checks return.
func ok(format string, args ...any) []Finding {
	return []Finding{{OK, fmt.Sprintf(format, args...), ""}}
}

func warn(fix, format string, args ...any) []Finding {
	return []Finding{{Warn, fmt.Sprintf(format, args...), fix}}
}

func fail(fix, format string, args ...any) []Finding {
	return []Finding{{Fail, fmt.Sprintf(format, args...), fix}}
}

func skip(fix, found string) []Finding { return []Finding{{Skip, found, fix}} }

// ofEach runs a check on several items at once.
func ofEach[T any](things []T, judge func(T) []Finding) []Finding {
	return slices.Concat(each(things, judge)...)
}

// merged combines the good findings into one, between the texts before and behind.
func merged(all []Finding, separator, before, behind string) []Finding {
	var good []string
	bad := slices.DeleteFunc(all, func(x Finding) bool {
		if x.Status == OK {
			good = append(good, x.Found)
		}
		return x.Status == OK
	})
	if len(good) == 0 {
		return bad
	}
	return append(bad, ok("%s%s%s", before, strings.Join(good, separator), behind)...)
}
