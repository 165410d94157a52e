package runtimes_test

import (
	"encoding/base64"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/docker/runtimes"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// TestNativeAnswersAsTheDockerSkeleton: the answers equal those of a running OpenWhisk's
// docker skeleton, byte for byte.
func TestNativeAnswersAsTheDockerSkeleton(t *testing.T) {
	p := start(t, runtimes.Native)
	p.load("#!/bin/sh\necho '{\"from\":\"bash\",\"args\":'\"$1\"'}'")
	p.run(`{"k":"v"}`, 200, "{\"args\":{\"k\":\"v\"},\"from\":\"bash\"}\n")
}

func TestNativeWithoutCode(t *testing.T) {
	p := start(t, runtimes.Native)
	status, text := p.post("/init", `{"value":{"name":"n","main":"main","binary":false}}`)
	check.Equal(check.Must(t), status, 200, "%q", text)
	check.Equal(check.Must(t), text, "OK")
	status, text = p.post("/run", runBody(`{}`))
	check.Equal(t, status, 200, "%d %q", status, text)
	check.Equal(t, failure(t, text), "This is a stub action. Replace it with custom logic.", "%d %q", status, text)
	check.Equal(t, len(text), 65, "%d %q", status, text)
}

// TestNativeOutsideOfImages: without an image, an action that consists only of an image
// fails with a clear error, and an action with code runs.
func TestNativeOutsideOfImages(t *testing.T) {
	p := start(t, runtimes.Native, "__OW_NO_IMAGE=true")
	status, text := p.post("/init", `{"value":{"name":"n","main":"main","binary":false}}`)
	check.Equal(t, status, 502, "%d %q", status, text)
	check.Contains(t, failure(t, text), "is a Docker image", "%d %q", status, text)
	p = start(t, runtimes.Native, "__OW_NO_IMAGE=true")
	code := `#!/bin/sh\necho '{\"ran\":true}'\n`
	status, text = p.post("/init", `{"value":{"name":"n","main":"main","binary":false,"code":"`+code+`"}}`)
	check.Equal(check.Must(t), status, 200, "%d %q", status, text)
	status, text = p.post("/run", runBody(`{}`))
	check.Equal(t, status, 200)
	check.Contains(t, text, "ran")
}

// TestNativeFindsTheImagesOwnExecutable: the executable of an image runs as the action.
func TestNativeFindsTheImagesOwnExecutable(t *testing.T) {
	dir := t.TempDir()
	check.NoError(t, os.WriteFile(filepath.Join(dir, "exec"), []byte("#!/bin/sh\necho '{\"own\":true}'\n"), 0o755))
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
			out, _ := p.logs()
			check.Equal(t, out, c.log, "log %q, want %q", out, c.log)
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
	status, text := p.post("/init", initBody(archive(t, map[string]string{"other": ""}, nil), "main", true, nil))
	check.Equal(t, status, 502, "archive without exec: %d %q", status, text)
}

// TestNativeLargeParameters: parameters that do not fit into an argument arrive on the
// standard input.
func TestNativeLargeParameters(t *testing.T) {
	p := start(t, runtimes.Native)
	p.load("#!/bin/sh\necho $# >&2\ncat\n")
	big := strings.Repeat("y", 1<<20)
	status, text := p.post("/run", runBody(`{"big":"`+big+`"}`))
	check.Equal(t, status, 200)
	check.Equal(t, len(text), len(big)+11)
	_, err := p.logs()
	check.Equal(t, err, "0\n")
}

func TestNativeBinary(t *testing.T) {
	program, err := exec.LookPath("cat")
	if err != nil {
		t.Skip("no cat on PATH to serve as a program")
	}
	code, err := os.ReadFile(program)
	check.NoError(t, err)
	p := start(t, runtimes.Native)
	p.post("/init", initBody(base64.StdEncoding.EncodeToString(code), "main", true, nil))
	// cat takes its argument for a file name, so there is no result.
	status, text := p.post("/run", runBody(`{"a":1}`))
	check.Equal(t, status, 502, "%d %q", status, text)
	_, log := p.logs()
	check.Contains(t, log, "No such file", "log %q", log)
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
		status, text := p.post("/init", initBody(looping, "main", false, nil))
		check.Equal(check.Must(t), status, 200)
		check.Equal(check.Must(t), text, "{\"ok\":true}\n")
		for i := 1; i <= 2; i++ {
			status, text := p.post("/run", "{\n\"value\":{\"a\":1}}")
			check.Equal(t, status, 200)
			check.Equal(t, text, `{"n":`+itoa(i)+`,"line":{"value":{"a":1}}}`+"\n")
			out, _ := p.logs()
			check.Equal(t, out, "run "+itoa(i)+"\n")
		}
		status, text = p.post("/run", runBody(`{"a":"scalar"}`))
		check.Equal(t, status, 502, "scalar: %d %q", status, text)
		p.refuses("/run", runBody(`{"a":"exit"}`), 400, "command exited")
		status, _ = p.post("/run", runBody(`{}`))
		check.Equal(t, status, 500, "after its exit")
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
