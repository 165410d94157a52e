package bench

import (
	"bufio"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// BenchmarkJournal keeps 64 activations in flight at two invokers in turns, of
// which one has the journal, each a process of its own, and tells the processor
// time of an activation. Goal: the journal takes at most 5 us more, and at most
// 1.1 times as much. What the worst pair of turns says stands beside the whole.
func BenchmarkJournal(b *testing.B) {
	r := newRig(b)
	environ := append(r.environment(), asInvoker+"="+r.action, "PATH="+os.Getenv("PATH"))
	sides := []*side{
		r.side(append(environ, invokerID+"=2")),
		r.side(append(environ, invokerID+"=3", "CONFIG_whisk_gpu_journal=none")),
	}
	const count = 5000
	for i, s := range sides {
		r.burst("invoker"+strconv.Itoa(2+i), 64, count)
		s.cpu = 0
	}
	worst := 0.0
	for b.Loop() {
		var turn [2]time.Duration
		for i, s := range sides {
			before := cpuOf(b, s.cmd.Process.Pid)
			r.burst("invoker"+strconv.Itoa(2+i), 64, count)
			turn[i] = cpuOf(b, s.cmd.Process.Pid) - before
			s.cpu += turn[i]
			s.runs += count
		}
		worst = max(worst, float64(turn[0])/float64(max(turn[1], 1)))
	}
	with, without := sides[0].each(), sides[1].each()
	b.ReportMetric(with, "cpu-us/run")
	b.ReportMetric(without, "cpu-us/run-without")
	b.ReportMetric(with-without, "journal-us/run")
	b.ReportMetric(with/without, "ratio")
	b.ReportMetric(worst, "worst-ratio")
	for _, s := range sides {
		_ = s.cmd.Process.Signal(syscall.SIGTERM)
		if err := s.cmd.Wait(); err != nil {
			b.Error(err)
		}
	}
}

// side is an invoker in a process of its own, and what it used.
type side struct {
	cmd      *exec.Cmd
	cpu      time.Duration
	switches int
	runs     int
}

func (s *side) each() float64 { return float64(s.cpu.Microseconds()) / float64(s.runs) }

func (r *rig) side(environ []string) *side { return r.sideOf(os.Args[0], environ) }

func (r *rig) sideOf(program string, environ []string) *side {
	r.b.Helper()
	s := &side{cmd: exec.Command(program)}
	s.cmd.Env, s.cmd.Stderr = environ, os.Stderr
	out, err := s.cmd.StdoutPipe()
	if err == nil {
		err = s.cmd.Start()
	}
	if err != nil {
		r.b.Fatal(err)
	}
	r.b.Cleanup(func() { _ = s.cmd.Process.Kill() })
	if !bufio.NewScanner(out).Scan() {
		r.b.Fatal("an invoker did not start")
	}
	return s
}
