package sim

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

const someFunctions = "function,warm_ms,cold_ms,memory_mb,weight\na,1000,3000,512,1\nb,20.5,40,64,2\n"

// trace reads a workload from text.
func trace(t testing.TB, format, data, functions string) (*Workload, error) {
	t.Helper()
	r := Trace{Format: format, File: written(t, "t.csv", data), ColdExtra: 3 * time.Second, MemoryEach: gib}
	if functions != "" {
		r.Functions = written(t, "f.csv", functions)
	}
	w, err := r.Read(1)
	if err != nil { // without the folder
		err = errors.New(strings.NewReplacer(filepath.Dir(r.File)+"/", "", filepath.Dir(r.Functions)+"/", "").Replace(err.Error()))
	}
	return w, err
}

// written returns a file with a text.
func written(t testing.TB, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestPlainTrace(t *testing.T) {
	w, err := trace(t, "plain", "\ufeff\"arrival_ms\",function\n0, a\n10.25,b\r\n\n10.25,a\n", someFunctions)
	if err != nil {
		t.Fatal(err)
	}
	check.EqualSlices(t, w.Arrivals, []Arrival{{At: 0, Function: 0}, {At: 10250 * time.Microsecond, Function: 0}, {At: 10250 * time.Microsecond, Function: 1}})
	b := w.Functions[1]
	check.Equal(t, b.Warm, 20500*time.Microsecond)
	check.Equal(t, b.Cold, 40*time.Millisecond)
	check.Equal(t, b.Memory, 64*mib)
	check.Equal(t, b.Weight, 2)
}

func TestPlainTraceKnowsOtherSpellings(t *testing.T) {
	w, err := trace(t, "plain", "func_name,invoke_time_ms\na,5\n", "func_name,cold_dur_ms,warm_dur_ms,mem_mb,mean_iat\na,300,20,94,1\n")
	if err != nil {
		t.Fatal(err)
	}
	check.Equal(t, w.Functions[0].Cold, 300*time.Millisecond)
	check.Equal(t, w.Functions[0].Warm, 20*time.Millisecond)
}

// A caller that needs only names and times gives no table of functions.
func TestPlainTraceOfNamesOnly(t *testing.T) {
	r := Trace{Format: "plain", File: written(t, "t.csv", "arrival_ms,function\n0,b\n1,a\n2,b\n"), NamesOnly: true}
	w, err := r.Read(1)
	if err != nil {
		t.Fatal(err)
	}
	check.Equal(check.Must(t), len(w.Functions), 2)
	check.Equal(t, w.Functions[0].Name, "b")
	check.Equal(t, w.Functions[1].Name, "a")
	check.EqualSlices(t, w.Arrivals, []Arrival{{At: 0, Function: 0}, {At: time.Millisecond, Function: 1}, {At: 2 * time.Millisecond, Function: 0}})
}

// TestBadTraces: every complaint names file and line or record, or the flag.
func TestBadTraces(t *testing.T) {
	for name, c := range map[string]struct{ format, data, functions, want string }{
		"empty":            {"plain", "", someFunctions, "t.csv: empty"},
		"only a header":    {"plain", "arrival_ms,function\n", someFunctions, "t.csv: no arrivals"},
		"no functions":     {"plain", "arrival_ms,function\n0,a\n", "", "--functions"},
		"cut line":         {"plain", "arrival_ms,function\n0,a\n1\n", someFunctions, "t.csv:3: wrong number of fields"},
		"negative":         {"plain", "arrival_ms,function\n-1,a\n", someFunctions, "t.csv:2: arrival_ms -1 is below 0"},
		"not a number":     {"plain", "arrival_ms,function\nNaN,a\n", someFunctions, "t.csv:2: arrival_ms \"NaN\" is not a number"},
		"infinite":         {"plain", "arrival_ms,function\n0,a\n+Inf,a\n", someFunctions, "t.csv:3: arrival_ms \"+Inf\" is not a number"},
		"huge":             {"plain", "arrival_ms,function\n1e300,a\n", someFunctions, "t.csv:2: arrival_ms 1e300 is above"},
		"out of order":     {"plain", "arrival_ms,function\n5,a\n4,a\n", someFunctions, "t.csv:3: arrival_ms 4 is before the line above's 5"},
		"unknown function": {"plain", "arrival_ms,function\n5,zzz\n", someFunctions, "t.csv:2: function zzz is not in f.csv"},
		"empty function":   {"plain", "arrival_ms,function\n5,\n", someFunctions, "t.csv:2: function is empty"},
		"no column":        {"plain", "time,function\n5,a\n", someFunctions, "t.csv:1: no column arrival_ms"},
		"column twice":     {"plain", "arrival_ms,function,function\n5,a,a\n", someFunctions, "t.csv:1: column function twice"},
		"cold below warm":  {"plain", "arrival_ms,function\n5,a\n", "function,warm_ms,cold_ms,memory_mb\na,10,5,1\n", "f.csv:2: cold_ms 5 is below 10"},
		"zero warm":        {"plain", "arrival_ms,function\n5,a\n", "function,warm_ms,cold_ms,memory_mb\na,0,5,1\n", "f.csv:2: warm_ms 0 is below"},
		"function twice":   {"plain", "arrival_ms,function\n5,a\n", someFunctions + "a,1,2,3,1\n", "f.csv:4: function a twice"},
		"zero weight":      {"plain", "arrival_ms,function\n5,a\n", "function,warm_ms,cold_ms,memory_mb,weight\na,1,5,1,0\n", "f.csv:2: weight 0 is below"},
		"negative memory":  {"plain", "arrival_ms,function\n5,a\n", "function,warm_ms,cold_ms,memory_mb\na,1,5,-1\n", "f.csv:2: memory_mb -1 is below 0"},
		"quote":            {"plain", "arrival_ms,function\n5,\"a\n", someFunctions, "t.csv:2: extraneous or missing"},
		"quoted comma":     {"plain", "arrival_ms,function\n5,\"a,b\"\n", someFunctions, "t.csv:2: function a,b is not in f.csv"},
		"unknown form":     {"oracle", "x\n", someFunctions, "--trace-format"},

		"2019 no functions": {"azure2019", "HashFunction,1\na,1\n", "", "--functions"},
		"2019 half a call":  {"azure2019", "HashFunction,1\na,0.5\n", someFunctions, "t.csv:2: minute 1: 0.5 calls"},
		"2019 negative":     {"azure2019", "HashFunction,1,2\na,0,-3\n", someFunctions, "t.csv:2: minute 2 -3 is below 0"},
		"2019 no minutes":   {"azure2019", "HashFunction,x\na,1\n", someFunctions, "t.csv:1: no minute columns"},
		"2019 gap":          {"azure2019", "HashFunction,1,3\na,1,1\n", someFunctions, "t.csv:1: minute column 3"},
		"2019 no calls":     {"azure2019", "HashFunction,1\na,0\n", someFunctions, "t.csv: no arrivals"},
		"2019 unknown":      {"azure2019", "HashFunction,1\nq,1\n", someFunctions, "t.csv:2: function q is not in f.csv"},

		"2021 cut":      {"azure2021", "app,func,end_timestamp,duration\nx,y,5\n", "", "t.csv:2: wrong number of fields"},
		"2021 negative": {"azure2021", "app,func,end_timestamp,duration\nx,y,5,-1\n", "", "t.csv:2: duration -1 is below 0"},
		"2021 column":   {"azure2021", "app,func,end_timestamp\nx,y,5\n", "", "t.csv:1: no column duration"},

		"records cut":       {"activations", `{"name":"a","start":1`, "", "t.csv: record 1: not an activation record"},
		"records cut later": {"activations", "{\"name\":\"a\",\"start\":5}\n\n{\"name\":\"b\"", "", "t.csv: record 2: not an activation record"},
		"records too many":  {"activations", "[{\"name\":\"a\",\"start\":5}]\n{}", "", "t.csv: more after the end"},
		"records unnamed":   {"activations", "{\"name\":\"a\",\"start\":5,\"duration\":1}\n{\"start\":5}", "", "t.csv: record 2: without a name"},
		"records no start":  {"activations", `{"name":"a"}`, "", "t.csv: record 1: start 0 of a"},
		"records array":     {"activations", `[{"name":"a","start":5,"duration":1}`, "", "t.csv: the array of records is cut off"},
		"records wait":      {"activations", `{"name":"a","start":5,"annotations":[{"key":"waitTime","value":"x"}]}`, "", "t.csv: record 1: not an activation record: annotation waitTime"},
		"records none":      {"activations", "", "", "t.csv: no arrivals"},
	} {
		_, err := trace(t, c.format, c.data, c.functions)
		check.ErrorContains(t, err, c.want, "%s", name)
	}
}

func TestAMillionFunctionsAreRefused(t *testing.T) {
	var b strings.Builder
	b.WriteString("function,warm_ms\n")
	for i := range 1_000_000 {
		fmt.Fprintf(&b, "f%d,1\n", i)
	}
	_, err := trace(t, "plain", "arrival_ms,function\n0,f1\n", b.String())
	check.ErrorContains(t, err, "f.csv:200002: more than 200000 functions")
}

// TestAzure2019MinutesAreSixtyThousandMilliseconds: a trap that public trace
// tools fell into is to take a minute for a second.
func TestAzure2019MinutesAreSixtyThousandMilliseconds(t *testing.T) {
	w, err := trace(t, "azure2019", "HashOwner,HashApp,HashFunction,Trigger,1,2,3\no,p,a,http,2,0,3\n", someFunctions)
	if err != nil {
		t.Fatal(err)
	}
	if len(w.Arrivals) != 5 {
		t.Fatalf("%d arrivals, want 5", len(w.Arrivals))
	}
	for i, a := range w.Arrivals {
		minute := int(a.At / time.Minute)
		if want := []int{0, 0, 2, 2, 2}[i]; minute != want {
			t.Errorf("arrival %d at %v, want minute %d", i, a.At, want)
		}
	}
}

func TestAzure2019TakesTheDataSetsOwnDurations(t *testing.T) {
	w, err := trace(t, "azure2019", "HashOwner,HashApp,HashFunction,Trigger,1\no,p,a,http,1\n",
		"HashOwner,HashApp,HashFunction,Average,Count,Minimum,Maximum\no,p,a,250,9,1,900\n")
	if err != nil {
		t.Fatal(err)
	}
	f := w.Functions[0]
	check.Equal(t, f.Warm, 250*time.Millisecond)
	check.Equal(t, f.Cold, f.Warm+3*time.Second)
}

func TestAzure2021(t *testing.T) {
	w, err := trace(t, "azure2021", "app,func,end_timestamp,duration\nx,y,100,40\nx,z,70.5,0.5\nx,y,90,20\n", "")
	if err != nil {
		t.Fatal(err)
	}
	// Starts 60, 70 and 70: moved so that the first is at zero.
	want := []Arrival{
		{At: 0, Function: 0, Work: 40 * time.Second},
		{At: 10 * time.Second, Function: 0, Work: 20 * time.Second},
		{At: 10 * time.Second, Function: 1, Work: 500 * time.Millisecond},
	}
	check.EqualSlices(t, w.Arrivals, want)
	check.Equal(t, w.Functions[0].Name, "x/y")
	check.Equal(t, w.Functions[0].Warm, 30*time.Second)
}

func TestActivationRecords(t *testing.T) {
	first := `{"namespace":"guest","name":"infer","start":1000500,"end":1002600,"duration":2100,"annotations":[
		{"key":"path","value":"guest/ml/infer"},{"key":"waitTime","value":500},{"key":"initTime","value":1600},
		{"key":"gpu","value":{"device":0,"start":"cold","queueTime":400,"prefetchTime":0,"gpuTime":450,"memory":1048576}}]}`
	second := `{"namespace":"guest","name":"infer","start":1003000,"end":1003500,"duration":500,"annotations":[
		{"key":"path","value":"guest/ml/infer"},{"key":"waitTime","value":0}]}`
	for _, text := range []string{first + "\n" + second + "\n", "[" + first + "," + second + "]"} {
		w, err := trace(t, "activations", text, "")
		if err != nil {
			t.Fatal(err)
		}
		want := []Arrival{{At: 0, Work: 450 * time.Millisecond}, {At: 3 * time.Second, Work: 500 * time.Millisecond}}
		check.EqualSlices(t, w.Arrivals, want)
		f := w.Functions[0]
		check.Equal(t, f.Name, "guest/ml/infer")
		check.Equal(t, f.Memory, 1<<20)
		check.Equal(t, f.Cold-f.Warm, 1600*time.Millisecond)
	}
}

func FuzzTrace(f *testing.F) {
	for _, seed := range []struct{ format, data, functions string }{
		{"plain", "arrival_ms,function\n0,a\n10,b\n", someFunctions},
		{"azure2019", "HashFunction,1,2\na,1,3\n", someFunctions},
		{"azure2021", "app,func,end_timestamp,duration\nx,y,100,40\n", ""},
		{"activations", `{"name":"a","start":5,"duration":7,"annotations":[{"key":"gpu","value":{"gpuTime":3}}]}`, ""},
	} {
		f.Add(seed.format, seed.data, seed.functions)
	}
	f.Fuzz(func(t *testing.T, format, data, functions string) {
		w, err := trace(t, format, data, functions)
		if err != nil {
			return
		}
		if err := w.Validate(); err != nil {
			t.Errorf("read an invalid workload: %v", err)
		}
		p := params(t, "fcfs")
		p.Drain = time.Minute
		if len(w.Arrivals) < 1000 && w.Horizon < 24*time.Hour {
			if _, err := Run(w, p); err != nil && !strings.Contains(err.Error(), "--gpu-memory") {
				t.Errorf("run: %v", err)
			}
		}
	})
}
