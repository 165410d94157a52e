// Package doctor examines a host and what its invoker is configured to connect
// to, and reports in one line each what is well, what is not, and how to fix it.
//
// A check is a function from a snapshot to findings. It asks by a Machine: files,
// commands and calls to the outside, each bounded in time; what several checks need
// is asked before them. It changes nothing, on the host or elsewhere, except that
// for a moment a probe of an image runs a container of it, the try of the shim a
// program that takes a few MiB of the first GPU, and that etcd grants a lease, which
// is returned. It examines once and does not watch.
//
// Goroutines: one for each check and question while Examine runs. One that gets
// no answer in time is left behind; the process is expected to end soon.
package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Status is how well something is.
type Status uint8

const (
	// Skip means that nothing was examined, since it is not configured.
	Skip Status = iota
	// OK means that nothing needs to be done.
	OK
	// Warn means that it works, but worse than it could or not for long.
	Warn
	// Fail means that something will not work.
	Fail
)

// String returns the name of a status.
func (s Status) String() string { return [...]string{"skipped", "ok", "warn", "fail"}[s] }

// MarshalText returns the name for JSON.
func (s Status) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Finding is one thing that a check found, and, where it is not well, how to
// fix it.
type Finding struct {
	Status Status `json:"status"`
	Found  string `json:"found"`
	Fix    string `json:"fix,omitempty"`
}

// Result is a finding with the check that made it.
type Result struct {
	Group string `json:"group"`
	Check string `json:"check"`
	Finding
}

// Report is everything that was found, in the order of the checks.
type Report []Result

// Worst is the worst status of a report.
func (r Report) Worst() Status {
	worst := OK
	for _, x := range r {
		worst = max(worst, x.Status)
	}
	return worst
}

// ExitCode is what the process ends with: 0 all well, 1 warnings, 2 something
// will fail.
func (r Report) ExitCode() int { return int(r.Worst() - OK) }

// checker is one question about the snapshot. It may have several findings, or none
// where it does not apply. docs/doctor.md explains each.
type checker struct {
	group, name string
	when        func(*snapshot) bool // nil: always
	find        func(*snapshot) []Finding
}

// checks lists all, in the order of the report.
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
		{"GPU", "CDI", (*snapshot).gpuWithDocker, checkCDI},
		{"GPU", "Docker runtime", (*snapshot).gpuByDocker, checkGPURuntime},
		{"GPU", "daemon-reload", (*snapshot).gpuByDocker, checkReload},
		{"GPU", "shim", nil, checkShim},
		{"GPU", "shim sockets", (*snapshot).gpuWithDocker, checkSockets},
		{"GPU", "shim in image", nil, checkShimImages},
		{"GPU", "fallbacks", nil, checkFallbacks},
		{"Containers", "engine", nil, checkEngine},
		{"Containers", "storage", (*snapshot).dockerAnswers, checkStorage},
		{"Containers", "logs", (*snapshot).dockerAnswers, checkLogs},
		{"Containers", "runtimes", nil, checkManifest},
		{"Containers", "images", (*snapshot).dockerAnswers, checkImages},
		{"Containers", "network", (*snapshot).dockerAnswers, checkNetwork},
		{"Containers", "probe", (*snapshot).usesDocker, checkProbes},
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

// slow are the checks that run something, for which ProbeLimit counts.
var slow = []string{"shim", "shim in image", "network", "probe"}

// Examine asks the machine everything at the same time, no question for longer
// than the limit, and reports what the answers mean.
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

// judge runs one check. Whatever it calls should end with the limit, and a file may
// lie on a file system that does not answer.
func (s snapshot) judge(ctx context.Context, c checker, limit time.Duration) (r Report) {
	const grace = time.Second // to report what did not answer
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
		found = fail("find the file system or device that hangs", "the check got no answer: %v", err)
	}
	for _, f := range found {
		r = append(r, Result{c.group, c.name, f})
	}
	return r
}

// ok, warn, fail and skip are a finding each, as checks return them.
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

// ofEach judges several things at once.
func ofEach[T any](things []T, judge func(T) []Finding) []Finding {
	return slices.Concat(each(things, judge)...)
}

// merged makes one finding of those that are well, with a text before and behind
// them.
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
