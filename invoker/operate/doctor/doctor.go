// Package doctor examines a host and what its invoker is configured to connect
// to, and reports in one line each what is well, what is not, and how to fix it.
//
// It asks by a Machine: files, commands and calls to the outside, each bounded in
// time. The answers are a Snapshot, and the checks functions from it to findings. It
// changes nothing, on the host or elsewhere, except that for a moment a probe of an
// image runs a container of it, the try of the shim a program that takes a few MiB
// of the first GPU, and that etcd grants a lease, which is returned.
// It examines once and does not watch.
//
// Goroutines: one for each question while Examine runs. A question that gets
// no answer in time is left behind and its goroutine with it; the process is
// expected to end soon.
package doctor

import (
	"context"
	"sync"
	"time"
)

// Status is how well something is.
type Status uint8

const (
	// OK means that nothing needs to be done.
	OK Status = iota
	// Warn means that it works, but worse than it could or not for long.
	Warn
	// Fail means that something will not work.
	Fail
	// Skip means that nothing was examined, since it is not configured. It is
	// no worse than OK.
	Skip
)

// String returns the name of a status.
func (s Status) String() string {
	switch s {
	case Warn:
		return "warn"
	case Fail:
		return "fail"
	case Skip:
		return "skipped"
	}
	return "ok"
}

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
		if x.Status != Skip {
			worst = max(worst, x.Status)
		}
	}
	return worst
}

// ExitCode is what the process ends with: 0 all well, 1 warnings, 2 something
// will fail.
func (r Report) ExitCode() int { return int(r.Worst()) }

// check is one question about the snapshot. It may have several findings, or none
// where it does not apply. docs/doctor.md explains each.
type check struct {
	group, name string
	when        func(*Snapshot) bool // nil: always
	find        func(*Snapshot) []Finding
}

// checks lists all, in the order of the report.
func checks() []check {
	return []check{
		{"GPU", "driver", nil, checkDriver},
		{"GPU", "device nodes", (*Snapshot).hasDriver, checkNodes},
		{"GPU", "UVM module", (*Snapshot).hasDriver, checkUVM},
		{"GPU", "NVML", nil, checkNVML},
		{"GPU", "device", nil, checkCards},
		{"GPU", "persistence", nil, checkPersistence},
		{"GPU", "compute mode", nil, checkComputeMode},
		{"GPU", "MIG", nil, checkMIG},
		{"GPU", "free memory", nil, checkFreeMemory},
		{"GPU", "MPS", (*Snapshot).hasDriver, checkMPS},
		{"GPU", "toolkit", nil, checkToolkit},
		{"GPU", "CDI", (*Snapshot).gpuWithDocker, checkCDI},
		{"GPU", "Docker runtime", (*Snapshot).gpuByDocker, checkGPURuntime},
		{"GPU", "daemon-reload", (*Snapshot).gpuByDocker, checkReload},
		{"GPU", "shim", nil, checkShim},
		{"GPU", "shim sockets", nil, checkSockets},
		{"GPU", "shim in image", nil, checkImageLibc},
		{"GPU", "fallbacks", nil, checkFallbacks},
		{"Containers", "engine", nil, checkEngine},
		{"Containers", "storage", (*Snapshot).dockerAnswers, checkStorage},
		{"Containers", "logs", (*Snapshot).dockerAnswers, checkLogs},
		{"Containers", "runtimes", nil, checkManifest},
		{"Containers", "images", (*Snapshot).dockerAnswers, checkImages},
		{"Containers", "probe", nil, checkProbes},
		{"Host", "port", nil, checkPort},
		{"Host", "memory", nil, checkMemory},
		{"Host", "disk", nil, checkDisk},
		{"Host", "state", (*Snapshot).configured, checkState},
		{"Settings", "configuration", nil, checkConfiguration},
		{"Settings", "mode", nil, checkMode},
		{"Settings", "admin login", (*Snapshot).configured, checkLogin},
		{"Settings", "ignored", nil, checkIgnored},
		{"Kafka", "brokers", nil, checkBrokers},
		{"Kafka", "addresses", nil, checkAdvertised},
		{"Kafka", "topics", nil, checkTopics},
		{"etcd", "members", (*Snapshot).scheduled, checkEtcd},
		{"etcd", "lease", (*Snapshot).etcdAnswers, checkLease},
		{"etcd", "schedulers", (*Snapshot).etcdAnswers, checkSchedulers},
		{"etcd", "tags", (*Snapshot).scheduled, checkTags},
		{"CouchDB", "server", nil, checkCouch},
		{"CouchDB", "databases", (*Snapshot).couchAnswers, checkDatabases},
		{"CouchDB", "views", (*Snapshot).couchAnswers, checkViews},
		{"Stores", "records", nil, checkRecords},
		{"Stores", "code", nil, checkBucket},
		{"ZooKeeper", "numbers", nil, checkZooKeeper},
	}
}

// dockerAnswers is the condition of checks of a running engine.
func (f *Snapshot) dockerAnswers() bool { return f.usesDocker() && f.docker.err == nil }

// gpuWithDocker is the condition of checks of what gives containers a GPU.
func (f *Snapshot) gpuWithDocker() bool { return f.hasDriver() && f.usesDocker() }

func (f *Snapshot) gpuByDocker() bool { return f.hasDriver() && f.dockerAnswers() }

func (f *Snapshot) couchAnswers() bool { return f.Config.CouchDB.Host != "" && f.couch.err == nil }

// Examine asks the machine everything at the same time, no question for longer
// than the limit, and reports what the answers mean.
func Examine(ctx context.Context, m *Machine, limit time.Duration) Report {
	snapshot := gather(ctx, m, limit)
	all := checks()
	found := make([][]Finding, len(all))
	var wg sync.WaitGroup
	for i, c := range all {
		wg.Go(func() { found[i] = judge(ctx, c, snapshot, limit) })
	}
	wg.Wait()
	var report Report
	for i, c := range all {
		for _, f := range found[i] {
			report = append(report, Result{c.group, c.name, f})
		}
	}
	return m.masked(report)
}

// judge runs one check. Checks read files, and a file may lie on a file system
// that does not answer.
func judge(ctx context.Context, c check, f *Snapshot, limit time.Duration) []Finding {
	a := ask(ctx, limit, func(context.Context) ([]Finding, error) {
		if c.when != nil && !c.when(f) {
			return nil, nil
		}
		return c.find(f), nil
	})
	if a.err != nil {
		return fail("the check got no answer: "+a.err.Error(), "find the file system or device that hangs")
	}
	return a.value
}

// ok, warn, fail and skip are a finding each, as checks return them.
func ok(found string) []Finding { return []Finding{{OK, found, ""}} }

func warn(found, fix string) []Finding { return []Finding{{Warn, found, fix}} }

func fail(found, fix string) []Finding { return []Finding{{Fail, found, fix}} }

func skip(found, fix string) []Finding { return []Finding{{Skip, found, fix}} }
