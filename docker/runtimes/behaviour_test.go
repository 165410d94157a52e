package runtimes_test

import (
	"archive/zip"
	"bytes"
	"encoding/base64"
	"io/fs"
	"net"
	"strings"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/docker/runtimes"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// dialect holds the same actions, written for each proxy.
type dialect struct {
	family   runtimes.Family
	echo     string // logs "hello" and "oops", answers with its input
	scalar   string // answers with a number
	array    string // answers [1,"two"]
	broken   string // cannot be loaded or started
	environ  string // answers with its variables that start with __OW_ or INI
	exits    string // exits with code 7 after printing "going"
	archive  map[string]string
	notFound string // error text if the result is a number
	initOK   string // answer of a successful /init
}

var dialects = []dialect{{
	family: runtimes.Python,
	echo: "import sys\ndef main(p):\n    print('hello')\n    print('oops', file=sys.stderr)\n" +
		"    return {'got': p}\n",
	scalar: "def main(p):\n    return 42\n",
	array:  "def main(p):\n    return [1, 'two']\n",
	broken: "def main(p:\n",
	environ: "import os\ndef main(p):\n" +
		"    return {k: v for k, v in os.environ.items() if k.startswith(('__OW_', 'INI'))}\n",
	exits: "import os, sys\ndef main(p):\n    print('going')\n    os._exit(7)\n",
	archive: map[string]string{
		"__main__.py":     "from lib.more import more\ndef main(p):\n    return {'zip': more(p)}\n",
		"lib/__init__.py": "", "lib/more.py": "def more(p):\n    return p\n"},
	notFound: "The action did not return a dictionary or array.",
	initOK:   "{\"ok\":true}\n",
}, {
	family:  runtimes.NodeJS,
	echo:    "function main(p){ console.log('hello'); console.error('oops'); return {got:p}; }",
	scalar:  "function main(p){ return 42; }",
	array:   "function main(p){ return [1,'two']; }",
	broken:  "function main(p){ return { ; }",
	environ: "function main(p){ const e={}; for (const k in process.env) if (/^(__OW_|INI)/.test(k)) e[k]=process.env[k]; return e; }",
	exits:   "function main(p){ console.log('going'); process.exit(7); }",
	archive: map[string]string{
		"package.json": `{"name":"z","main":"start.js"}`,
		"start.js":     "const more=require('./lib/more'); exports.main=p=>({zip:more(p)});",
		"lib/more.js":  "module.exports=p=>p;"},
	notFound: "The action did not return a dictionary.",
	initOK:   `{"OK":true}`,
}, {
	family:  runtimes.Native,
	echo:    "#!/bin/sh\necho hello\necho oops >&2\necho '{\"got\":'\"$1\"'}'\n",
	scalar:  "#!/bin/sh\necho 42\n",
	array:   "#!/bin/sh\necho '[1, \"two\"]'\n",
	broken:  "",
	environ: "#!/bin/sh\nprintf '{'; env | grep -E '^(__OW_|INI)' | sed 's/\"/\\\\\"/g; s/^\\([^=]*\\)=\\(.*\\)$/\"\\1\":\"\\2\",/' | tr -d '\\n' | sed 's/,$//'; echo '}'\n",
	exits:   "",
	archive: map[string]string{
		"exec": "#!/bin/sh\n. ./lib/more\n", "lib/more": "echo '{\"zip\":'\"$1\"'}'\n"},
	notFound: "The action did not return a dictionary or array.",
	initOK:   "OK",
}}

// each runs a test for every proxy.
func each(t *testing.T, test func(t *testing.T, d dialect)) {
	for _, d := range dialects {
		t.Run(string(d.family), func(t *testing.T) {
			t.Parallel()
			test(t, d)
		})
	}
}

func TestInitAndRun(t *testing.T) {
	each(t, func(t *testing.T, d dialect) {
		p := start(t, d.family)
		status, text := p.post("/init", initBody(d.echo, "main", false, nil))
		check.Equal(check.Must(t), status, 200)
		check.Equal(check.Must(t), text, d.initOK)
		for range 3 {
			p.returns(`{"n":1,"s":"grüße 日本 😀"}`, map[string]any{"got": map[string]any{"n": 1.0, "s": "grüße 日本 😀"}})
			out, err := p.logs()
			check.Equal(t, out, "hello\n")
			check.Equal(t, err, "oops\n")
		}
	})
}

// TestUnixSocket: a proxy with a Unix socket in its environment listens there, and its
// action does not see the variable.
func TestUnixSocket(t *testing.T) {
	each(t, func(t *testing.T, d dialect) {
		p := start(t, d.family, "__OW_PROXY_SOCKET=s")
		p.load(d.echo)
		p.returns(`{"n":1}`, map[string]any{"got": map[string]any{"n": 1.0}})
		_, err := net.Dial("tcp", p.port)
		check.That(t, err != nil, "it also listens on its port")
	})
}

func TestArraysInAndOut(t *testing.T) {
	each(t, func(t *testing.T, d dialect) {
		p := start(t, d.family)
		p.load(d.echo)
		p.returns(`[1,{"a":2}]`, map[string]any{"got": []any{1.0, map[string]any{"a": 2.0}}})
		p = start(t, d.family)
		p.load(d.array)
		p.returns(`{}`, []any{1.0, "two"})
	})
}

func TestResultMustBeObjectOrArray(t *testing.T) {
	each(t, func(t *testing.T, d dialect) {
		p := start(t, d.family)
		p.load(d.scalar)
		p.refuses("/run", runBody(`{}`), 502, d.notFound)
		p.logs() // the sentinels appear anyway
	})
}

func TestSecondInitIsRefused(t *testing.T) {
	each(t, func(t *testing.T, d dialect) {
		p := start(t, d.family)
		p.load(d.echo)
		p.refuses("/init", initBody(d.array, "main", false, nil), 403, "Cannot initialize the action more than once.")
		status, text := p.post("/run", runBody(`{}`))
		check.Equal(t, status, 200, "the action was lost")
		check.Contains(t, text, "got", "the action was lost")
	})
}

func TestEnvironment(t *testing.T) {
	each(t, func(t *testing.T, d dialect) {
		p := start(t, d.family, "__OW_API_HOST=https://host")
		status, text := p.post("/init", initBody(d.environ, "main", false, map[string]any{
			"INI": "text with = and spaces", "INI_OBJ": map[string]any{"x": []int{1, 2}}, "__OW_DEADLINE": "1"}))
		check.Equal(check.Must(t), status, 200, "init: %d %q", status, text)
		status, text = p.post("/run", `{"value":{},"activation_id":"aid","deadline":"2","api_key":"k:s","action_version":null}`)
		want := map[string]any{"INI": "text with = and spaces", "INI_OBJ": `{"x":[1,2]}`, "__OW_API_HOST": "https://host",
			"__OW_ACTIVATION_ID": "aid", "__OW_DEADLINE": "2", "__OW_API_KEY": "k:s"}
		check.Equal(t, status, 200)
		check.DeepEqual(t, mustJSON(t, text), want)
	})
}

func TestArchive(t *testing.T) {
	each(t, func(t *testing.T, d dialect) {
		p := start(t, d.family)
		code := archive(t, d.archive, nil)
		status, text := p.post("/init", initBody(code, "main", true, nil))
		check.Equal(check.Must(t), status, 200, "init: %d %q", status, text)
		p.returns(`{"k":"v"}`, map[string]any{"zip": map[string]any{"k": "v"}})
	})
}

// archive returns a zip file in base64. links maps names to targets.
func archive(t testing.TB, files, links map[string]string) string {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	add := func(name, text string, mode fs.FileMode) {
		h := &zip.FileHeader{Name: name, Method: zip.Deflate}
		h.SetMode(mode)
		w, err := z.CreateHeader(h)
		if err == nil {
			_, err = w.Write([]byte(text))
		}
		check.NoError(t, err)
	}
	for name, text := range files {
		add(name, text, 0o755)
	}
	for name, target := range links {
		add(name, target, 0o777|fs.ModeSymlink)
	}
	check.NoError(t, z.Close())
	return base64.StdEncoding.EncodeToString(b.Bytes())
}

// TestArchiveStaysInItsFolder: no file of an archive is written outside the action's
// directory.
func TestArchiveStaysInItsFolder(t *testing.T) {
	each(t, func(t *testing.T, d dialect) {
		p := start(t, d.family)
		files := map[string]string{"../../../../../../outside": "x"}
		for name, text := range d.archive {
			files[name] = text
		}
		p.post("/init", initBody(archive(t, files, nil), "main", true, nil))
		err := fs.WalkDir(dirFS(p.dir), ".", func(path string, e fs.DirEntry, err error) error {
			if err == nil && e.Name() == "outside" && !strings.HasPrefix(path, "action") {
				t.Errorf("the archive wrote %s", path)
			}
			return err
		})
		check.NoError(t, err)
	})
}

func TestBadArchives(t *testing.T) {
	each(t, func(t *testing.T, d dialect) {
		whole, err := base64.StdEncoding.DecodeString(archive(t, d.archive, nil))
		check.NoError(t, err)
		for name, data := range map[string][]byte{
			"cut":   whole[:len(whole)/2],
			"empty": []byte("PK\x05\x06" + strings.Repeat("\x00", 18)),
			"wrong": append([]byte("PK\x03\x04"), bytes.Repeat([]byte("x"), 200)...),
		} {
			p := start(t, d.family)
			status, text := p.post("/init", initBody(base64.StdEncoding.EncodeToString(data), "main", true, nil))
			if d.family != runtimes.Native || name != "empty" {
				check.Equal(t, status, 502, "%s: %q", name, text)
			}
		}
	})
}

func TestRequestsThatAreNone(t *testing.T) {
	each(t, func(t *testing.T, d dialect) {
		p := start(t, d.family)
		for _, c := range []struct {
			path, body string
			min, max   int
		}{
			{"/init", `{`, 400, 400},
			{"/init", `[]`, 400, 403},
			{"/init", `"text"`, 400, 400},
			{"/init", `{"value":{"code":1,"main":"main"}}`, 400, 403},
			{"/init", strings.Repeat("[", 100000), 400, 400},
			{"/run", runBody(`{}`), 403, 502}, // before there is code
			{"/other", `{}`, 404, 404},
		} {
			status, text := p.post(c.path, c.body)
			check.AtLeast(t, status, c.min, "%s %.40s: %d %q", c.path, c.body, status, text)
			check.AtMost(t, status, c.max, "%s %.40s: %d %q", c.path, c.body, status, text)
			e, ok := mustJSON(t, text).(map[string]any)["error"].(string)
			check.That(check.Must(t), ok, "%s %.40s: no error in %q", c.path, c.body, text)
			check.That(t, e != "", "%s %.40s: no error in %q", c.path, c.body, text)
		}
		p.load(d.echo)
		for _, body := range []string{`{`, `{"value":1}`, `{"value":"s"}`} {
			status, text := p.post("/run", body)
			if d.family != runtimes.Python {
				check.AtLeast(t, status, 400, "run %s: %q", body, text)
				check.AtMost(t, status, 404, "run %s: %q", body, text)
			}
		}
		resp, err := p.client.Get("http://proxy/run")
		check.NoError(t, err)
		resp.Body.Close()
		check.Equal(t, resp.StatusCode, 405, "GET")
		status, text := p.post("/run", runBody(`{"still":"there"}`))
		check.Equal(t, status, 200, "after all that: %d %q", status, text)
	})
}

// TestLargeBodies: the largest code has 48 MiB; results and parameters may exceed 1 MiB.
func TestLargeBodies(t *testing.T) {
	each(t, func(t *testing.T, d dialect) {
		comment := map[runtimes.Family]string{runtimes.Python: "\n# ", runtimes.NodeJS: "\n// ", runtimes.Native: "\nexit\n# "}[d.family]
		p := start(t, d.family)
		p.load(d.echo + comment + strings.Repeat("x", 48<<20))
		big := strings.Repeat("y", 3<<20)
		if d.family == runtimes.Native {
			big = big[:100<<10] // fits into an argument
		}
		status, text := p.post("/run", runBody(`{"big":"`+big+`"}`))
		check.Equal(t, status, 200)
		check.Contains(t, text, big)
	})
}

func TestActionThatEndsTheProcess(t *testing.T) {
	each(t, func(t *testing.T, d dialect) {
		if d.exits == "" {
			t.Skip("runs in a process of its own")
		}
		p := start(t, d.family)
		p.load(d.exits)
		status, text := p.post("/run", runBody(`{}`))
		check.Equal(t, status, 0, "%d %q", status, text)
	})
}

func TestCodeThatDoesNotLoad(t *testing.T) {
	each(t, func(t *testing.T, d dialect) {
		if d.broken == "" {
			t.Skip("nothing is loaded")
		}
		p := start(t, d.family)
		status, text := p.post("/init", initBody(d.broken, "main", false, nil))
		check.Equal(t, status, 502, "%d %q", status, text)
		check.That(t, mustJSON(t, text).(map[string]any)["error"] != "", "%d %q", status, text)
		_, err := p.logs()
		check.Contains(t, err, "SyntaxError", "the log lacks the reason")
	})
}
