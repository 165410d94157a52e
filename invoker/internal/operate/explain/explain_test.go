package explain

import (
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func at(ms int) time.Time { return epoch.Add(time.Duration(ms) * time.Millisecond) }

func text(a Trace) string {
	var all []string
	for _, s := range Describe(&a) {
		all = append(all, s.Text)
	}
	return strings.Join(all, "\n")
}

func TestDescribe(t *testing.T) {
	whole := Trace{
		ID: "1", Namespace: "guest", Action: "guest/f", Sent: at(0), Accepted: at(3), Queued: at(4), Granted: at(2104), Launched: at(2105),
		Start: "host-warm", RunStart: at(2106), RunEnd: at(2906), Answered: at(2908), Completed: at(2920), Recorded: true, Batch: 12,
		GPU: &GPU{Device: "0 (A100)", Moved: 140 * time.Millisecond, Memory: 1288490189, Beside: 1, WaitReason: "throttled",
			Lead: 10 * time.Second, Overrun: 5 * time.Second, Behind: "guest/guest/b", Own: 1, Passed: 15, PassedBy: 14},
	}
	want := `Accepted, 3.0 ms after the controller made it.
Waited 2.10 s behind 1 call of its own function and behind 14 of guest/b and 1 of other functions, because its lead over the others was 10.0 s where 5.00 s is allowed.
Started host-warm on GPU 0 (A100): the container was there, but not all of its memory on the device.
Its memory was brought to the device in 140 ms.
Ran 800 ms beside 1 other run; its container held 1.2 GB of device memory.
Answered with success, 2.91 s after it was sent.
Its record, written in a batch of 12, and its acks were safe 12 ms later.`
	check.Equal(t, text(whole), want)
	for batch, want := range map[int]string{0: "Its record and its acks were safe 12 ms", 1: "Its record, written alone, and its acks", NoBatch: "the store refused its record"} {
		a := whole
		if a.Batch = batch; !strings.Contains(text(a), want) {
			t.Errorf("a batch of %d: no %q in\n%s", batch, want, text(a))
		}
	}
	for runs, want := range map[int]string{1: "beside 1 run of guest/b and 2 other runs", 3: "beside 3 runs of guest/b;"} {
		a, g := whole, *whole.GPU
		g.Beside, g.Company, g.CompanyRuns, a.GPU = 3, "guest/guest/b", runs, &g
		check.Contains(t, text(a), want)
	}
	for reason, want := range map[string]string{
		"no token": "as many runs as it takes at once", "does not fit": "neither device memory", "no device": "no device",
		"waits for its container": "sooner than a cold start", "behind": "policy put other functions first",
	} {
		a := whole
		g := *whole.GPU
		g.WaitReason = reason
		a.GPU = &g
		check.Contains(t, text(a), want, "%s", reason)
	}
	refused := text(Trace{Accepted: at(0), Answered: at(1), Refused: "no such thing", Completed: at(2)})
	check.Contains(t, refused, "Did not run: no such thing")
	check.Contains(t, refused, "no record of it is kept")
	check.Equal(t, text(Trace{}), "Accepted.")
}

func TestNames(t *testing.T) {
	for name, want := range map[string]string{
		"guest/guest/fft": "guest/fft", "guest/guest/pkg/fft": "guest/pkg/fft", "guest/other/pkg/fft": "guest/other/pkg/fft",
		"guest/fft": "guest/fft", "guest/guest": "guest/guest", "": "",
	} {
		check.Equal(t, FunctionName(name), want, "%s", name)
	}
	for name, want := range map[string]string{
		"0 (NVIDIA A100)": "GPU 0 (NVIDIA A100)", "1 (gpu, simulated)": "GPU 1 (simulated)", "2 (gpu)": "GPU 2",
		"3 (A100, simulated)": "GPU 3 (A100, simulated)", "4": "GPU 4",
	} {
		check.Equal(t, DeviceName(name, false), want, "%s", name)
	}
	check.Equal(t, DeviceName("0 (gpu)", true), "GPU 0 (simulated)")
}

func TestLogKeepsTheLast(t *testing.T) {
	l := NewLog(3)
	for i := range 5 {
		g := &GPU{Own: i}
		l.Add(&Trace{ID: fmt.Sprint(i), GPU: g})
		g.Own = -1 // the log has a copy
	}
	for i := range 5 {
		a, ok := l.Find(fmt.Sprint(i))
		check.Equal(t, ok, i >= 2, "trace %d", i)
		if ok {
			check.Equal(t, a.GPU.Own, i, "trace %d", i)
		}
	}
	recent, seen := l.Recent(2)
	check.Equal(t, seen, 5)
	check.Equal(check.Must(t), len(recent), 2)
	check.Equal(t, recent[0].ID, "4")
	check.Equal(t, recent[1].ID, "3")
	// An id that comes again, as after a restart of a broker, is found as it
	// was last.
	l.Add(&Trace{ID: "4", Status: 2})
	l.Add(&Trace{ID: "6"})
	l.Add(&Trace{ID: "7"})
	a, ok := l.Find("4")
	check.That(check.Must(t), ok, "the newer trace of 4 went with the older")
	check.Equal(t, a.Status, 2)
	var none *Log
	none.Add(&Trace{})
	if _, ok := none.Find(""); ok {
		t.Error("a nil log finds something")
	}
	if none.Functions(epoch) != nil {
		t.Error("a nil log has functions")
	}
}

func TestFunctions(t *testing.T) {
	l := NewLog(1000)
	for i := range 101 {
		l.Add(&Trace{ID: fmt.Sprint("a", i), Namespace: "guest", Action: "guest/f", Start: "warmed", Accepted: at(0), Queued: at(0),
			Granted: at(i), Answered: at(10 * i), Status: i % 2})
	}
	l.Add(&Trace{ID: "old", Namespace: "guest", Action: "guest/g", Start: "cold", Answered: at(-1)})
	l.Add(&Trace{ID: "b", Namespace: "guest", Action: "guest/h", Refused: "no", Accepted: at(0), Answered: at(7)})
	got := l.Functions(at(0))
	check.Equal(check.Must(t), len(got), 2)
	f, h := got[0], got[1]
	check.Equal(t, f.Function, "guest/guest/f")
	check.Equal(t, f.Count, 101)
	check.Equal(t, f.Failed, 50)
	check.Equal(t, f.Starts["warmed"], 101)
	check.Equal(t, f.Wait, Quantiles{50, 95, 99})
	check.Equal(t, f.Latency, Quantiles{500, 950, 990})
	check.Equal(t, h.Function, "guest/guest/h")
	check.Equal(t, h.Latency.P50, 7)
	check.Equal(t, len(h.Starts), 0)
}

func TestUnits(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0 s", 999: "0 s", 1500: "1 µs", 1500 * time.Microsecond: "1.5 ms", 999 * time.Millisecond: "999 ms",
		2100 * time.Millisecond: "2.10 s", 61 * time.Second: "1 min 1 s", 59900 * time.Millisecond: "59.9 s", time.Hour: "1h0m0s",
	} {
		check.Equal(t, Short(d), want, "%d", d)
	}
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1536: "1.5 KB", 400 << 20: "400 MB", 16 << 30: "16 GB", 2048 << 30: "2048 GB"} {
		check.Equal(t, Bytes(n), want, "%d", n)
	}
}

// BenchmarkAdd measures adding a finished trace.
func BenchmarkAdd(b *testing.B) {
	ids := make([]string, 20_000)
	for i := range ids {
		ids[i] = fmt.Sprintf("%032x", i)
	}
	b.ReportAllocs()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.GC() // frees the memory of the first one
	runtime.ReadMemStats(&before)
	l := NewLog(10_000)
	for i := 0; b.Loop(); i++ {
		l.Add(&Trace{
			ID: ids[i%len(ids)], Namespace: "guest", Action: "guest/f", Kind: "python:3", Sent: at(i), Accepted: at(i + 1), Queued: at(i + 1),
			Granted: at(i + 90), Launched: at(i + 91), Start: "host-warm", Container: "wsk00_12_guest_f", RunStart: at(i + 92), RunEnd: at(i + 500),
			LogsStart: at(i + 500), Logs: time.Millisecond, Answered: at(i + 502), Acked: at(i + 503), Stored: at(i + 510), Completed: at(i + 510), Recorded: true, Batch: 12,
			GPU: &GPU{Own: i % 10, Device: "0 (A100)", WaitReason: "throttled", Lead: 3 * time.Second, Overrun: time.Second, Memory: 1 << 30, Behind: "guest/g"},
		})
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(int64(after.HeapAlloc)-int64(before.HeapAlloc))/10_000, "B/trace")
	runtime.KeepAlive(l)
	runtime.KeepAlive(ids) // they are not the traces
}

// BenchmarkFunctions measures the statistics, for which the console asks each second.
func BenchmarkFunctions(b *testing.B) {
	l := NewLog(10_000)
	for i := range 10_000 {
		l.Add(&Trace{ID: fmt.Sprint(i), Namespace: "guest", Action: fmt.Sprint("guest/f", i%1000), Start: "cold", Accepted: at(i), Answered: at(2 * i)})
	}
	for b.Loop() {
		l.Functions(epoch)
	}
}

func TestFromRecord(t *testing.T) {
	a, err := FromRecord([]byte(`{"activationId":"a1","namespace":"guest","name":"f","start":10000,"end":10900,"response":{"status":"success"},
		"annotations":[{"key":"path","value":"guest/pkg/f"},{"key":"waitTime","value":2200},{"key":"timeout","value":false},
		{"key":"gpu","value":{"device":"0 (A100)","start":"host-warm","queueTime":2100,"prefetchTime":140,"gpuTime":900,"memory":1073741824}}]}`))
	check.NoError(t, err)
	want := `Sent by the controller.
Waited 2.10 s.
Started host-warm on GPU 0 (A100): the container was there, but not all of its memory on the device.
Its memory was brought to the device in 140 ms.
Ran 900 ms; its container held 1.0 GB of device memory.
Answered with success, 3.10 s after it was sent.`
	check.Equal(t, a.Action, "guest/pkg/f")
	check.Equal(t, text(*a), want)
	a, err = FromRecord([]byte(`{"activationId":"a2","start":10000,"end":10500,"response":{"statusCode":2},"annotations":[{"key":"initTime","value":300}]}`))
	check.NoError(t, err)
	for _, part := range []string{"initialised in 300 ms", "Ran 200 ms", "developer error"} {
		check.Contains(t, text(*a), part)
	}
	for _, bad := range []string{"", "[]", "{}", `{"activationId":"x"}`, `{"activationId":"x","start":"y"}`} {
		if _, err := FromRecord([]byte(bad)); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}

func FuzzFromRecord(f *testing.F) {
	f.Add([]byte(`{"activationId":"a","start":1,"end":-5,"annotations":[{"key":"gpu","value":{"queueTime":-1}}]}`))
	f.Fuzz(func(_ *testing.T, b []byte) {
		if a, err := FromRecord(b); err == nil {
			Describe(a)
		}
	})
}

// A trace in the log does not keep the activation's message in memory. A message may
// contain a megabyte of parameters.
func TestLogKeepsNoMessage(t *testing.T) {
	message := strings.Repeat("x", 1<<16)
	from := uintptr(unsafe.Pointer(unsafe.StringData(message)))
	l := NewLog(2)
	l.Add(&Trace{
		ID: message[:32], Namespace: message[32:40], Action: message[40:60], Kind: message[60:70],
		Container: message[70:80], Refused: message[80:90],
	})
	a, ok := l.Find(message[:32])
	if !ok {
		t.Fatal("the trace is not found")
	}
	v := reflect.ValueOf(a)
	for i := range v.NumField() {
		if v.Field(i).Kind() != reflect.String || v.Field(i).Len() == 0 {
			continue
		}
		at := uintptr(unsafe.Pointer(unsafe.StringData(v.Field(i).String())))
		if at >= from && at < from+uintptr(len(message)) {
			t.Errorf("%s is a part of the message", v.Type().Field(i).Name)
		}
	}
	runtime.KeepAlive(message)
}
