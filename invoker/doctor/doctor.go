// Package doctor looks at a host and at what its invoker is configured to talk
// to, and says in one line each what is well, what is not, and how to fix it.
//
// What it knows of the machine comes through a Machine: files, commands and
// calls to the outside, each bounded in time. The checks themselves are
// functions from those Facts to findings. It changes nothing, on the host or
// elsewhere, except that for a moment a probe of an image runs a container of
// it, and the try of the shim a program that takes a few MiB of the first GPU.
// It does not watch: it looks once.
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
	// Skip means that nothing was looked at, since it is not configured. It is
	// no worse than OK.
	Skip
)

// String returns the sign that stands before a line.
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

// Finding is one thing that a check found, and, where it is not well, how to
// fix it.
type Finding struct {
	Status Status
	Found  string
	Fix    string
}

// Result is a finding with the check that made it.
type Result struct {
	Group, Check string
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

// check is one question about the facts. It may have several findings, or none
// where it does not apply.
type check struct {
	group, name string
	find        func(*Facts) []Finding
}

func checks() []check {
	var all []check
	for _, group := range []struct {
		name   string
		checks []check
	}{
		{"GPU", gpuChecks()},
		{"Containers", dockerChecks()},
		{"Host", hostChecks()},
		{"Settings", settingChecks()},
		{"Kafka", kafkaChecks()},
		{"CouchDB", couchChecks()},
		{"Stores", storeChecks()},
		{"ZooKeeper", zooKeeperChecks()},
	} {
		for _, c := range group.checks {
			c.group = group.name
			all = append(all, c)
		}
	}
	return all
}

// Examine asks the machine everything at the same time, no question for longer
// than the limit, and reports what the answers mean.
func Examine(ctx context.Context, m *Machine, limit time.Duration) Report {
	facts := gather(ctx, m, limit)
	all := checks()
	found := make([][]Finding, len(all))
	var wg sync.WaitGroup
	for i, c := range all {
		wg.Go(func() { found[i] = judge(ctx, c, facts, limit) })
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
func judge(ctx context.Context, c check, f *Facts, limit time.Duration) []Finding {
	a := ask(ctx, limit, func(context.Context) ([]Finding, error) { return c.find(f), nil })
	if a.err != nil {
		return one(fail("the check got no answer: "+a.err.Error(), "look for a file system or device that hangs"))
	}
	return a.value
}

func ok(found string) Finding        { return Finding{OK, found, ""} }
func warn(found, fix string) Finding { return Finding{Warn, found, fix} }
func fail(found, fix string) Finding { return Finding{Fail, found, fix} }

func skip(found, fix string) Finding { return Finding{Skip, found, fix} }

func one(f Finding) []Finding { return []Finding{f} }
