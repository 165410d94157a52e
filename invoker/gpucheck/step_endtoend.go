package gpucheck

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"time"
)

// endToEndRuns is how often each of the two functions runs.
const endToEndRuns = 4

// checkEndToEnd runs two functions with kernels of their own through
// gpuwhisk standalone in process mode, in turns, and reads their records back.
// On the fake driver the device has room for one of them at a time.
func checkEndToEnd(ctx context.Context, b *bed, r *Result) error {
	if _, err := exec.LookPath(b.s.Python); err != nil {
		return skip("no %s here: the functions are Python", b.s.Python)
	}
	bytes := min(int64(256<<20), b.free/40)
	if b.fake {
		bytes = 32 << 20
	}
	if err := b.take(2 * (bytes + contextIf(b))); err != nil {
		return err
	}
	w, err := b.startWhisk(ctx, b.devices(bytes)...)
	if err != nil {
		return err
	}
	defer w.stop()
	names := []string{"check-first", "check-second"}
	for _, n := range names {
		if err := w.create(ctx, b, n, bytes+bytes/8); err != nil {
			return err
		}
	}
	t := r.table(fmt.Sprintf("gpuwhisk standalone, process mode, gpufunc.py on %s", size(bytes)),
		"action", "device", "start", "queue ms", "prefetch ms", "GPU ms", "memory", "contents")
	e := endToEnd{}
	for range endToEndRuns {
		for _, n := range names {
			if err := e.once(ctx, w, t, n, bytes); err != nil {
				return err
			}
		}
	}
	e.judge(r, b.fake)
	if !b.fake {
		b.crowdOut(ctx, r, w, bytes)
	}
	return nil
}

// crowdOut has a function promised so much of the card, of which it uses
// little, that another must leave it, and sees that one come back. What keeps
// it from that is told and not judged: the promise must fit what others, too,
// leave of the card.
func (b *bed) crowdOut(ctx context.Context, r *Result, w *whisk, bytes int64) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	c, err := b.mon.card()
	if err != nil {
		r.note("Nothing was crowded out: %v.", err)
		return
	}
	const reckoned = 400 << 20 // a context, as the invoker reckons it
	e, t := endToEnd{}, r.table("A function that is promised nearly all of the card, and the one that left for it",
		"action", "device", "start", "queue ms", "prefetch ms", "GPU ms", "memory", "contents")
	err = w.create(ctx, b, "check-large", c.Memory.Total-3*reckoned-bytes*3/2)
	for _, n := range []string{"check-large", "check-first"} {
		if err == nil {
			err = e.once(ctx, w, t, n, bytes)
		}
	}
	switch {
	case err != nil:
		r.note("Crowding out: %v.", err)
	case e.said != "":
		r.note("Crowding out: a function said: %s", e.said)
	default:
		r.note("Crowding out: %d of 2 right, %d came back from the host.", e.correct, e.hostWarm)
	}
}

// devices are the arguments that choose the device.
func (b *bed) devices(bytes int64) []string {
	if !b.fake {
		return []string{"--devices", "auto"}
	}
	// Two contexts as the invoker reckons them, and one and a half functions.
	memory := 2*(400<<20) + bytes*3/2
	return []string{"--fake-driver", b.s.FakeDriver, "--gpus", "1", "--gpu-memory", fmt.Sprintf("%d B", memory)}
}

type endToEnd struct {
	runs, correct, noted, hostWarm int
	said                           string
}

// once runs one function and looks at what became of it.
func (e *endToEnd) once(ctx context.Context, w *whisk, t *Table, name string, bytes int64) error {
	rec, err := w.invoke(ctx, name, map[string]int64{"bytes": bytes})
	if err != nil {
		return err
	}
	var result struct {
		Correct bool   `json:"correct"`
		Intact  bool   `json:"intact"`
		Error   string `json:"error"`
	}
	if err := json.Unmarshal(rec.Response.Result, &result); err != nil {
		return errors.New("the function's result is no object")
	}
	e.runs++
	contents := "wrong"
	if rec.Response.Success && result.Correct && result.Intact {
		e.correct++
		contents = "right"
	} else if result.Error != "" {
		e.said, contents = result.Error, result.Error
	}
	n, ok := rec.gpu()
	if ok {
		e.noted++
	}
	if n.Start == "host-warm" {
		e.hostWarm++
	}
	t.row(name, n.Device, n.Start, fmt.Sprint(n.QueueTime), fmt.Sprint(n.PrefetchTime), fmt.Sprint(n.GPUTime), size(n.Memory), contents)
	return nil
}

func (e *endToEnd) judge(r *Result, fake bool) {
	want := fmt.Sprint(e.runs)
	r.must("runs whose kernels gave the right result and found their memory as it was", float64(e.correct), "", want, e.correct == e.runs)
	r.must("records with the annotation gpu", float64(e.noted), "", want, e.noted == e.runs)
	if fake {
		r.must("runs whose memory came back from the host", float64(e.hostWarm), "", "more than 0", e.hostWarm > 0)
	} else {
		r.note("The card has room for both functions: none of them had to leave it, and %d started from the host.", e.hostWarm)
	}
	if e.said != "" {
		r.note("A function said: %s", e.said)
	}
}
