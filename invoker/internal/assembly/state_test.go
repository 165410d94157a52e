package assembly

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/activation/records"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/config"
)

var stateOff = config.State{Dir: "none"}

func withState(s config.State) *assembly {
	if s.JournalSync == "" {
		s.JournalSync = "batch"
	}
	a := newAssembly(Options{Config: &config.Config{State: s}, Log: quiet})
	a.instance.ID = 7
	return a
}

func TestStateOnDisk(t *testing.T) {
	dir, own := t.TempDir(), t.TempDir()
	for _, c := range []struct {
		state config.State
		want  []string // directories that are made
	}{
		{config.State{Dir: dir}, []string{dir + "/invoker7/journal", dir + "/invoker7/records"}},
		{config.State{Dir: "none"}, nil},
		{config.State{Dir: "none", Journal: own}, []string{own + "/invoker7"}},
		{config.State{Dir: dir, Journal: "none", Spool: "none", DeadLetters: "none"}, nil},
	} {
		a := withState(c.state)
		check.NoError(t, a.state.open())
		for _, d := range c.want {
			if _, err := os.Stat(d); err != nil {
				t.Errorf("%+v: %v", c.state, err)
			}
		}
		var r records.Config
		a.state.into(&r)
		st := a.state.status()
		got, want := [3]bool{st.Journal != nil, st.Spool != nil, st.DeadLetters != nil}, [3]bool{a.state.journal != nil, r.Spool != nil, r.DeadLetters != nil}
		check.Equal(t, got, want, "%+v: the status has journal, spool, dead letters", c.state)
		if len(c.want) == 0 {
			check.Equal(t, got, [3]bool{}, "%+v: switched off", c.state)
		}
		check.NoError(t, a.state.close())
	}
}

// TestStateErrorsNameTheWayOut: a start that fails for its directories names the
// key to change.
func TestStateErrorsNameTheWayOut(t *testing.T) {
	dir := t.TempDir()
	first := withState(config.State{Dir: dir})
	check.NoError(t, first.state.open())
	defer func() { _ = first.state.close() }()
	second := withState(config.State{Dir: dir})
	err := second.state.open()
	check.ErrorContains(t, err, "same id")
	check.ErrorContains(t, err, "whisk.gpu.state")
	file := filepath.Join(dir, "file")
	check.NoError(t, os.WriteFile(file, nil, 0o600))
	third := withState(config.State{Dir: filepath.Join(file, "below")})
	check.ErrorContains(t, third.state.open(), "whisk.gpu.state")
}
