package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// TestWskConfigFile: settings are read from the same file as by wsk.
func TestWskConfigFile(t *testing.T) {
	home, other := t.TempDir(), filepath.Join(t.TempDir(), "props")
	for path, host := range map[string]string{filepath.Join(home, ".wskprops"): "home", other: "other"} {
		check.NoError(t, os.WriteFile(path, []byte("APIHOST="+host+"\nAUTH=u:"+host+"\n"), 0o600))
	}
	t.Setenv("HOME", home)
	for _, c := range []struct {
		file  string
		given whisk
		want  whisk
	}{
		{"", whisk{}, whisk{"home", "u:home"}},
		{other, whisk{}, whisk{"other", "u:other"}},
		{other, whisk{APIHost: "mine"}, whisk{"mine", "u:other"}},
		{other + "-absent", whisk{}, whisk{}},
	} {
		t.Setenv("WSK_CONFIG_FILE", c.file)
		if got := c.given.orOwn(); got != c.want {
			t.Errorf("WSK_CONFIG_FILE=%s: %+v, want %+v", c.file, got, c.want)
		}
	}
}
