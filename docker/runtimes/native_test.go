package runtimes_test

import (
	"encoding/base64"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/docker/runtimes"
)

// The bytes are those that a running OpenWhisk's docker skeleton answered.
func TestNativeAnswersAsTheDockerSkeleton(t *testing.T) {
	p := start(t, runtimes.Native)
	p.load("#!/bin/sh\necho '{\"from\":\"bash\",\"args\":'\"$1\"'}'")
	p.run(`{"k":"v"}`, 200, "{\"args\":{\"k\":\"v\"},\"from\":\"bash\"}\n")
}

func TestNativeWithoutCode(t *testing.T) {
	p := start(t, runtimes.Native)
	if status, text := p.post("/init", `{"value":{"name":"n","main":"main","binary":false}}`); status != 200 || text != "OK" {
		t.Fatalf("%d %q", status, text)
	}
	status, text := p.post("/run", runBody(`{}`))
	if status != 200 || failure(t, text) != "This is a stub action. Replace it with custom logic." || len(text) != 65 {
		t.Errorf("%d %q", status, text)
	}
}

// Without an image, an action that is only an image fails with an error about
// that; one with code runs.
func TestNativeOutsideOfImages(t *testing.T) {
	p := start(t, runtimes.Native, "__OW_NO_IMAGE=true")
	status, text := p.post("/init", `{"value":{"name":"n","main":"main","binary":false}}`)
	if status != 502 || !strings.Contains(failure(t, text), "is a Docker image") {
		t.Errorf("%d %q", status, text)
	}
	p = start(t, runtimes.Native, "__OW_NO_IMAGE=true")
	code := `#!/bin/sh\necho '{\"ran\":true}'\n`
	if status, text := p.post("/init", `{"value":{"name":"n","main":"main","binary":false,"code":"`+code+`"}}`); status != 200 {
		t.Fatalf("%d %q", status, text)
	}
	if status, text := p.post("/run", runBody(`{}`)); status != 200 || !strings.Contains(text, "ran") {
		t.Errorf("%d %q", status, text)
	}
}

// An image may have its own executable.
func TestNativeFindsTheImagesOwnExecutable(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "exec"), []byte("#!/bin/sh\necho '{\"own\":true}'\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	p := start(t, runtimes.Native, "__OW_PROXY_DIR="+dir)
	p.post("/init", `{"value":{"name":"n"}}`)
	p.run(`{}`, 200, "{\"own\":true}\n")
}

func TestNativeOutput(t *testing.T) {
	const no = `{"error":"The action did not return a dictionary or array."}`
	for _, c := range []struct {
		name, script string
		status       int
		want, log    string
	}{
		{"logs first", `echo one; echo two; echo '{"a":1}'`, 200, `{"a":1}`, "one\ntwo\n"},
		{"no newline", `echo one; printf '{"a":1}'`, 200, `{"a":1}`, "one\n"},
		{"failed all the same", `echo '{"a":1}'; exit 3`, 200, `{"a":1}`, ""},
		{"sorted and ASCII", `echo '{"b":"ü😀<","a":1.50}'`, 200, `{"a":1.50,"b":"\u00fc\ud83d\ude00<"}`, ""},
		{"no JSON", `echo one; echo two`, 502, no, "one\ntwo\n"},
		{"two values", `echo '{} {}'`, 502, no, "{} {}\n"},
		{"nothing", `true`, 502, no, "\n"},
		{"empty last line", `echo '{}'; echo`, 502, no, "{}\n\n"},
		{"slow pieces", `printf '{"a"'; printf ':1}'; echo`, 200, `{"a":1}`, ""},
		{"reads its input", `cat`, 200, `{"in":1}`, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := start(t, runtimes.Native)
			p.load("#!/bin/sh\n" + c.script)
			p.run(`{"in":1}`, c.status, c.want+"\n")
			if out, _ := p.logs(); out != c.log {
				t.Errorf("log %q, want %q", out, c.log)
			}
		})
	}
}

func TestNativeCodeThatCannotRun(t *testing.T) {
	p := start(t, runtimes.Native)
	p.load("no interpreter line")
	p.refuses("/run", runBody(`{}`), 502, "The action did not return a dictionary or array.")
	p = start(t, runtimes.Native)
	p.refuses("/init", initBody("%%%", "main", true, nil), 502, "The action failed to generate or locate a binary. See logs for details.")
	p = start(t, runtimes.Native)
	if status, text := p.post("/init", initBody(archive(t, map[string]string{"other": ""}, nil), "main", true, nil)); status != 502 {
		t.Errorf("archive without exec: %d %q", status, text)
	}
}

// What does not fit in an argument comes by the standard input.
func TestNativeLargeParameters(t *testing.T) {
	p := start(t, runtimes.Native)
	p.load("#!/bin/sh\necho $# >&2\ncat\n")
	big := strings.Repeat("y", 1<<20)
	status, text := p.post("/run", runBody(`{"big":"`+big+`"}`))
	if status != 200 || len(text) != len(big)+11 {
		t.Errorf("%d, %d bytes", status, len(text))
	}
	if _, err := p.logs(); err != "0\n" {
		t.Errorf("arguments: %q", err)
	}
}

func TestNativeBinary(t *testing.T) {
	program, err := exec.LookPath("cat")
	if err != nil {
		t.Skip("no cat on PATH to serve as a program")
	}
	code, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	p := start(t, runtimes.Native)
	p.post("/init", initBody(base64.StdEncoding.EncodeToString(code), "main", true, nil))
	// cat takes its argument for a file, and so ends without a result.
	if status, text := p.post("/run", runBody(`{"a":1}`)); status != 502 {
		t.Errorf("%d %q", status, text)
	}
	if _, log := p.logs(); !strings.Contains(log, "No such file") {
		t.Errorf("log %q", log)
	}
}

const looping = `#!/bin/sh
[ -n "$__OW_WAIT_FOR_ACK" ] && echo '{"ok":true}' >&3
n=0
while read -r line; do
  n=$((n+1))
  echo "run $n"
  case "$line" in
    *exit*) exit 1 ;;
    *scalar*) echo 1 >&3 ;;
    *) echo "{\"n\":$n,\"line\":$line}" >&3 ;;
  esac
done
`

func TestNativeActionLoop(t *testing.T) {
	for _, ack := range []string{"", "1"} {
		p := start(t, runtimes.Native, "__OW_ACTION_LOOP=true", "OW_WAIT_FOR_ACK="+ack)
		if status, text := p.post("/init", initBody(looping, "main", false, nil)); status != 200 || text != "{\"ok\":true}\n" {
			t.Fatalf("init: %d %q", status, text)
		}
		for i := 1; i <= 2; i++ {
			status, text := p.post("/run", "{\n\"value\":{\"a\":1}}")
			if want := `{"n":` + itoa(i) + `,"line":{"value":{"a":1}}}` + "\n"; status != 200 || text != want {
				t.Errorf("%d %q, want %q", status, text, want)
			}
			if out, _ := p.logs(); out != "run "+itoa(i)+"\n" {
				t.Errorf("log %q", out)
			}
		}
		if status, text := p.post("/run", runBody(`{"a":"scalar"}`)); status != 502 {
			t.Errorf("scalar: %d %q", status, text)
		}
		p.refuses("/run", runBody(`{"a":"exit"}`), 400, "command exited")
		if status, _ := p.post("/run", runBody(`{}`)); status != 500 {
			t.Errorf("after its exit: %d", status)
		}
	}
}

func TestNativeActionLoopThatDoesNotStart(t *testing.T) {
	for _, script := range []string{
		"#!/bin/sh\nexit 1\n",
		"#!/bin/sh\necho '{\"ok\":false}' >&3\nread line\n",
		"#!/bin/sh\necho hello >&3\nread line\n",
		"no interpreter line",
	} {
		p := start(t, runtimes.Native, "__OW_ACTION_LOOP=true", "__OW_WAIT_FOR_ACK=1")
		p.refuses("/init", initBody(script, "main", false, nil), 502, "Cannot start action. Check logs for details.")
		p.logs()
	}
}
