package activation

import (
	"strings"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

func TestManifest(t *testing.T) {
	m := manifest(t)
	check.Equal(check.Must(t), len(m.Runtimes()), 5)
	for kind, want := range map[string]string{
		"nodejs:20": "nodejs:20", "nodejs:default": "nodejs:20", "python:default": "python:3.11",
		" NodeJS:18 ": "nodejs:18", //nolint:gocritic // the test is about the blanks
		"cobol:60":    "", "cobol:default": "", "default": "", "": "",
	} {
		r, ok := m.Runtime(kind)
		check.Equal(t, r.Kind, want, "kind %q", kind)
		check.That(t, ok == (want != ""), "kind %q: %q", kind, r.Kind)
	}
	node, _ := m.Runtime("nodejs:20")
	cell := node.StemCells[0]
	check.Equal(t, cell.Count, 2)
	check.Equal(t, cell.Memory, 256*MB)
	check.Equal(t, *cell.Reactive, Reactive{1, 4, 2 * time.Minute, 1, 1})
	java, _ := m.Runtime("java:8")
	check.That(t, !java.SentinelledLogs, "flags %+v", java)
	check.That(check.Must(t), java.RequireMain, "flags %+v", java)
	check.That(check.Must(t), node.SentinelledLogs, "flags %+v", java)
	check.That(t, node.Attached, "flags %+v", java)
}

func TestManifestRefuses(t *testing.T) {
	image := `"image":{"name":"i"}`
	entry := func(more string) string { return `{"runtimes":{"f":[{"kind":"k:1",` + image + more + `}]}}` }
	for name, text := range map[string]string{
		"no json":           `{`,
		"no default":        `{"runtimes":{"f":[{"kind":"k:1",` + image + `},{"kind":"k:2",` + image + `}]}}`,
		"two defaults":      `{"runtimes":{"f":[{"kind":"k:1","default":true,` + image + `},{"kind":"k:2","default":true,` + image + `}]}}`,
		"no kind":           `{"runtimes":{"f":[{` + image + `}]}}`,
		"no image":          `{"runtimes":{"f":[{"kind":"k:1"}]}}`,
		"no image name":     `{"runtimes":{"f":[{"kind":"k:1","image":{"tag":"x"}}]}}`,
		"no runtimes":       `{}`,
		"no cells":          entry(`,"stemCells":[{"initialCount":0,"memory":"1 MB"}]`),
		"no memory":         entry(`,"stemCells":[{"initialCount":1}]`),
		"bad memory":        entry(`,"stemCells":[{"initialCount":1,"memory":"lots"}]`),
		"bad ttl":           entry(`,"stemCells":[{"count":1,"memory":"1 MB","reactive":{"minCount":0,"maxCount":1,"ttl":"soon","threshold":1,"increment":1}}]`),
		"increment too big": entry(`,"stemCells":[{"count":1,"memory":"1 MB","reactive":{"minCount":0,"maxCount":1,"ttl":"1 s","threshold":1,"increment":2}}]`),
	} {
		_, err := ParseManifest([]byte(text), ManifestOptions{})
		check.That(t, err != nil, "%s: taken", name)
	}
	_, err := ParseManifest([]byte(entry(`,"stemCells":[{"count":1,"memory":"1 MB"}],"deprecated":null`)), ManifestOptions{})
	check.NoError(t, err, "legacy count")
}

func TestImages(t *testing.T) {
	for s, want := range map[string]Image{
		"name":                              {Name: "name"},
		"name:1":                            {Name: "name", Tag: "1"},
		"openwhisk/dockerskeleton":          {Prefix: "openwhisk", Name: "dockerskeleton"},
		"a/b/name:T_1.x-y":                  {Prefix: "a/b", Name: "name", Tag: "T_1.x-y"},
		"127.0.0.1:1/none/does-not-exist:9": {Registry: "127.0.0.1:1", Prefix: "none", Name: "does-not-exist", Tag: "9"},
		"reg.example.com/name":              {Registry: "reg.example.com", Name: "name"},
		"localhost/name":                    {Prefix: "localhost", Name: "name"},
		"localhost:5000/name":               {Registry: "localhost:5000", Name: "name"},
		"n@sha256:0123456789abcdef0123456789abcdef": {Name: "n", Digest: "sha256:0123456789abcdef0123456789abcdef"},
	} {
		got, err := ParseImage(s)
		check.NoError(t, err, "%q: %+v", s, got)
		check.Equal(t, got, want)
		check.Equal(t, got.String(), s)
	}
	for _, bad := range []string{"", "/", "Name", "a//b", "name:", "name: x", "-name", "name-", "a b", "host:x/name", "n@", "n@sha256:12", "n:" + strings.Repeat("t", 129)} {
		got, err := ParseImage(bad)
		check.That(t, err != nil, "took %q as %+v", bad, got)
	}
}

func TestImageReference(t *testing.T) {
	plain := Image{Prefix: "p", Name: "n", Tag: "t"}
	own := Image{Registry: "own:1", Name: "n"}
	for _, c := range []struct {
		image          Image
		registry, want string
	}{
		{plain, "", "p/n:t"}, {plain, "reg", "reg/p/n:t"}, {plain, "reg/", "reg/p/n:t"}, {own, "reg", "own:1/n"}, {own, "", "own:1/n"},
	} {
		check.Equal(t, c.image.reference(c.registry), c.want, "%+v at %q", c.image, c.registry)
	}
	for _, c := range []struct {
		a, b Image
		want bool
	}{{Image{Name: "n"}, Image{Name: "n", Tag: "latest"}, true}, {Image{Name: "n"}, Image{Name: "n", Tag: "1"}, false}, {plain, own, false}} {
		check.Equal(t, c.a.same(c.b), c.want, "%+v is the same as %+v", c.a, c.b)
	}
}

func TestNativeImages(t *testing.T) {
	m := manifest(t)
	for image, want := range map[string]bool{"openwhisk/dockerskeleton:nightly": true, "openwhisk/dockerskeleton": false, "whisk/mine": false} {
		i, _ := ParseImage(image)
		check.Equal(t, m.native(i), want, "%s", image)
	}
	m, err := ParseManifest([]byte(`{"runtimes":{}}`), ManifestOptions{BypassPull: true, LocalPrefix: "whisk", UserImagesRegistry: "u", RuntimesRegistry: "r"})
	check.NoError(t, err)
	local, _ := ParseImage("whisk/mine")
	bare, _ := ParseImage("mine")
	check.That(t, m.native(local), "an image with the local prefix is pulled")
	check.That(t, !m.native(bare), "an image without the local prefix is not pulled")
	check.Equal(t, m.userReference(bare), "u/mine", "the user's registry")
	check.Equal(t, m.ManagedReference(bare), "r/mine", "the runtimes' registry")
}

func TestParseDuration(t *testing.T) {
	for s, want := range map[string]time.Duration{"2 minutes": 2 * time.Minute, "10s": 10 * time.Second, "1 d": 24 * time.Hour, "5 ms": 5 * time.Millisecond, "0 h": 0} {
		got, err := parseDuration(s)
		check.NoError(t, err, "%q: %v", s, got)
		check.Equal(t, got, want, "%q", s)
	}
	for _, bad := range []string{"", "5", "minutes", "-1 s", "1 fortnight", "999999999 days"} {
		got, err := parseDuration(bad)
		check.That(t, err != nil, "took %q as %v", bad, got)
	}
}
