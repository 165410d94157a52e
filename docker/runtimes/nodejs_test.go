package runtimes_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/docker/runtimes"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// TestNodeStatesOfLoading: the texts equal those that a running OpenWhisk recorded for
// the same code.
func TestNodeStatesOfLoading(t *testing.T) {
	const failed = "Initialization has failed due to: "
	testLoading(t, runtimes.NodeJS, "proxy.js", []loading{
		{"not there", "function foo(){}", "bar", 502, failed + "Action entrypoint 'bar' is not a function.",
			"Error during initialization: Action entrypoint 'bar' is not a function.\n"},
		{"no function", "const main = 1;", "main", 502, failed + "Action entrypoint 'main' is not a function.", ""},
		{"syntax", "function main(p){ return { ; }", "main", 502,
			failed + "SyntaxError: Unexpected token ';'\n    at action.js:1", "SyntaxError: Unexpected token ';'\n"},
		{"throws", "throw new Error('top level'); function main(p){ return {}; }", "main", 502,
			failed + "Error: top level\n    at action.js:1:7", "Error during initialization: Error: top level\n"},
		{"no code", "", "main", 403, "Missing main/no code to execute.", ""},
		{"no main", "function main(){}", "", 403, "Missing main/no code to execute.", ""},
		{"exports", "exports.main = p => p;", "main", 200, "", ""},
		{"module.exports", "module.exports = { go: p => p };", "go", 200, "", ""},
		{"comment at the end", "const main = p => p // end", "main", 200, "", ""},
		{"require", "const path = require('path'); function main(){ return {a: path.sep} }", "main", 200, "", ""},
		{"strict", "'use strict'; function main(){ return {} }", "main", 200, "", ""},
	})
}

func TestNodeResults(t *testing.T) {
	for _, c := range []struct {
		name, code string
		status     int
		want, log  string
	}{
		{"promise", "function main(){ return new Promise(r => setTimeout(() => r({a:1}), 1)) }", 200, `{"a":1}`, ""},
		{"async", "async function main(){ return {a:1} }", 200, `{"a":1}`, ""},
		{"nothing", "function main(){}", 200, `{}`, ""},
		{"null", "function main(){ return null }", 200, `null`, ""},
		{"number", "function main(){ return 42 }", 502, `{"error":"The action did not return a dictionary."}`,
			"Result must be of type object but has type \"number\": 42\n"},
		{"throws", "function main(){ throw new Error('thrown') }", 502, `{"error":"An error has occurred: Error: thrown"}`,
			"Error: thrown\n    at "},
		{"throws text", "function main(){ throw 'thrown' }", 502, `{"error":"An error has occurred: thrown"}`, "thrown\n"},
		{"rejects nothing", "function main(){ return Promise.reject() }", 200, `{"error":{}}`, ""},
		{"rejects text", "function main(){ return Promise.reject('no') }", 200, `{"error":"no"}`, ""},
		{"rejects object", "function main(){ const o={a:1,f(){}}; o.o=o; return Promise.reject(o) }", 200,
			`{"error":{"a":1,"o":"[Circular]"}}`, ""},
		{"error of its own", "function main(p){ return {error:{message:'no good',n:7}} }", 200,
			`{"error":{"message":"no good","n":7}}`, ""},
		{"circle", "function main(){ const o={}; o.o=o; return o }", 500, `{"error":"Internal error."}`, ""},
		{"bigint", "function main(){ return {a:1n} }", 500, `{"error":"Internal error."}`, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := start(t, runtimes.NodeJS)
			p.load(c.code)
			p.run(`{}`, c.status, c.want)
			_, log := p.logs()
			check.That(check.Must(t), strings.HasPrefix(log, c.log), "log %q", log)
			check.Lacks(t, log, "proxy.js", "log %q", log)
		})
	}
}

func TestNodeRejectedError(t *testing.T) {
	p := start(t, runtimes.NodeJS)
	p.load("async function main(){ throw Object.assign(new TypeError('rejected'), {extra: {a: 1}, code: 'E1'}) }")
	status, text := p.post("/run", runBody(`{}`))
	e, _ := mustJSON(t, text).(map[string]any)["error"].(map[string]any)
	stack, _ := e["stack"].(string)
	check.That(t, strings.HasPrefix(stack, "TypeError: rejected\n"), "stack %q", stack)
	delete(e, "stack")
	want := map[string]any{"name": "TypeError", "message": "rejected", "code": "E1", "extra": map[string]any{"a": 1.0}}
	check.Equal(t, status, 200)
	check.DeepEqual(t, e, want)
}

func TestNodeStopsAfterAThrow(t *testing.T) {
	p := start(t, runtimes.NodeJS)
	p.load("function main(){ throw new Error('once') }")
	p.post("/run", runBody(`{}`))
	p.refuses("/run", runBody(`{}`), 403, "System not ready, status is stopped.")
}

const waits = "let n=0, go; const all=new Promise(r=>go=r); " +
	"function main(p){ if (++n === p.n) go(); return all.then(()=>({n})) }"

func TestNodeRunsAtOnceOnlyIfAllowed(t *testing.T) {
	const n = 5
	p := start(t, runtimes.NodeJS, "__OW_ALLOW_CONCURRENT=true")
	p.load(waits)
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() { p.run(`{"n":5}`, 200, `{"n":5}`) })
	}
	wg.Wait()
	p.out.until(t, n)

	p = start(t, runtimes.NodeJS, "__OW_ALLOW_CONCURRENT=false")
	p.load("let go; function main(){ console.log('begun'); return new Promise(r=>go=r) }; setInterval(()=>global.end&&go({}),1)")
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.post("/run", runBody(`{}`))
	}()
	for !strings.Contains(p.printed(), "begun") {
		<-p.out.seen
	}
	p.refuses("/run", runBody(`{}`), 403, "System not ready, status is running.")
	p.cmd.Process.Kill()
	<-done
}

// printed returns the standard output so far.
func (p *running) printed() string {
	p.out.mu.Lock()
	defer p.out.mu.Unlock()
	return p.out.text.String()
}

func TestNodeArchives(t *testing.T) {
	for _, c := range []struct {
		name  string
		files map[string]string
		links map[string]string
		main  string
		want  string
		err   string
	}{
		{"index", map[string]string{"index.js": "exports.main=()=>({a:1})"}, nil, "main", `{"a":1}`, ""},
		{"file in main", map[string]string{"index.js": "", "other.js": "exports.a={b:()=>({a:2})}"}, nil, "other.a.b", `{"a":2}`, ""},
		{"relative file", map[string]string{"index.js": "exports.main=()=>({a:require('fs').readFileSync('data','utf8')})",
			"data": "in the archive"}, nil, "main", `{"a":"in the archive"}`, ""},
		{"modules", map[string]string{"index.js": "exports.main=()=>require('m')",
			"node_modules/m/index.js": "module.exports={m:1}"}, nil, "main", `{"m":1}`, ""},
		{"link", map[string]string{"index.js": "exports.main=()=>require('./l')", "real.js": "module.exports={l:1}"},
			map[string]string{"l.js": "real.js"}, "main", `{"l":1}`, ""},
		{"link that leaves", map[string]string{"index.js": "exports.main=()=>({})"},
			map[string]string{"l": "../../etc"}, "main", "", "There was an error uncompressing the action archive."},
		{"neither", map[string]string{"other.js": ""}, nil, "main", "",
			"Zipped actions must contain either package.json or index.js at the root."},
		{"no such function", map[string]string{"index.js": ""}, nil, "main", "",
			"Action entrypoint 'main' is not a function."},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := start(t, runtimes.NodeJS)
			body := initBody(archive(t, c.files, c.links), c.main, true, nil)
			if c.err != "" {
				p.refuses("/init", body, 502, "Initialization has failed due to: "+c.err)
				return
			}
			p.post("/init", body)
			p.run(`{}`, 200, c.want)
		})
	}
}

func TestNodeInitLogsBelongToTheFirstRun(t *testing.T) {
	p := start(t, runtimes.NodeJS)
	p.load("console.log('from init'); console.error('err from init'); function main(p){ return {}; }")
	p.post("/run", runBody(`{}`))
	out, err := p.logs()
	check.Equal(t, out, "from init\n")
	check.Equal(t, err, "err from init\n")
	p.post("/run", runBody(`{}`))
	out, err = p.logs()
	check.Equal(t, out, "")
	check.Equal(t, err, "")
}

// TestOutputIsWrittenAtOnce: an action's output is in the log's pipe before the action goes
// on, so that a flood is in the log when the answer comes.
func TestOutputIsWrittenAtOnce(t *testing.T) {
	p := start(t, runtimes.NodeJS)
	p.load(`function main() { console.log("x".repeat(1 << 20)); return { left: process.stdout.writableLength }; }`)
	p.returns(`{}`, map[string]any{"left": 0.0})
}
