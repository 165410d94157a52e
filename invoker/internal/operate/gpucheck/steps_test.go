package gpucheck

import (
	"errors"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// Parts of the steps are used on a card only. The plans of a card name only programs, numbers,
// formats, values and goals that there are.
func TestPlansForACardAreWhole(t *testing.T) {
	goals, written := RealGoals(), 0
	for _, reclaim := range []bool{false, true} {
		f := &fixture{dir: "/d", device: device{Free: 139 << 30}, modules: []string{"torch", "cupy", "jax"}, witness: "no NVML",
			s: Settings{Shim: "/shim", Goals: &goals, Python: "sh", Swap: 8 << 30, Set: 1536 << 20, Containers: 16, Rounds: 15, HostMemory: 120 << 30, Reclaim: reclaim}}
		for _, st := range steps {
			p, err := f.planned(st)
			if errors.As(err, new(errSkip)) && (st.Name == "mps" || st.Name == "cgroups" || st.Name == "pressure" && !reclaim) {
				continue
			}
			check.NoError(t, err, "%s", st.Name)
			whole(t, st.Name, p)
			written++
		}
	}
	check.That(t, written >= 2*(len(steps)-3), "%d plans", written)
	for _, refused := range []any{nil, errors.New("not permitted")} {
		var p plan
		check.NoError(t, render("cgroups", map[string]any{"fake": false, "nvml": true, "witness": "", "group": "/g", "limit": 4, "context": 1, "bytes": 1,
			"refused": refused, "goals": &goals, "check": "/shim/check"}, &p))
		whole(t, "cgroups", p)
		if refused == nil {
			check.EqualSlices(t, p.Programs["plain"].Command, []string{"sh", "-c", `echo $$ >"$0" && exec "$@"`, "/g/cgroup.procs", "/shim/check/worker"})
		}
	}
}

var lastField = regexp.MustCompile(`\.\w+(\[.*)?$`)

func whole(t *testing.T, name string, p plan) {
	t.Helper()
	check.That(t, len(p.Trials) > 0, "%s has no trials", name)
	for _, trial := range p.Trials {
		known := map[string]bool{"met": true, "missed": true}
		for _, end := range trial.Ends {
			_, ok := p.Programs[end]
			check.That(t, ok, "%s ends program %s", name, end)
		}
		for _, ph := range trial.Phases {
			known[ph.Label+".phase"] = true
			for _, order := range regexp.MustCompile("[&;\n]").Split(ph.Script, -1) {
				words := strings.Fields(order)
				if len(words) > 2 && words[1] == "=" {
					known[words[0]], words = true, words[2:]
				}
				if len(words) == 0 || words[0][0] == '#' {
					continue
				}
				_, ok := p.Programs[words[0]]
				check.That(t, ok && len(words) > 1, "%s: order %q", name, order)
			}
		}
		// named reports whether a script or an earlier figure keeps a number.
		named := func(n string) bool {
			base, _, _ := strings.Cut(n, "[")
			return known[base] || known[lastField.ReplaceAllString(n, "")] || len((&numbers{}).of(n)) > 0
		}
		var texts []string
		for _, f := range trial.Figures {
			for _, n := range append(f.Value[1:], f.Less, f.Needs) {
				check.That(t, n == "" || named(n), "%s: figure %+v: no number %s", name, f, n)
			}
			check.That(t, values[f.Value[0]] != nil, "%s: value %v", name, f.Value)
			if f.Goal != nil {
				check.That(t, len(f.Goal) == 2 && goals[f.Goal[0]] != nil, "%s: goal %v", name, f.Goal)
			}
			known[f.Key] = true
			texts = append(texts, f.What)
		}
		for _, ph := range trial.Phases {
			texts = append(texts, ph.Row...)
		}
		for _, s := range append(trial.Says, trial.Remarks...) {
			texts = append(texts, s.Text)
		}
		for _, text := range texts {
			for _, m := range reference.FindAllStringSubmatch(text, -1) {
				if m[1] == "" {
					check.That(t, formats[m[2]] != nil && named(m[3]), "%s: %s in %q", name, m[0], text)
				}
			}
			check.Lacks(t, text, "<no value>", "%s", name)
		}
	}
}

// Scripts of frameworks start the workers beside the shim.
func TestWorkersOfFrameworks(t *testing.T) {
	for _, h := range frameworks() {
		check.That(t, exists(filepath.Join("../../../../shim/check", h.Module+"_worker.py")), "%s", h.Module)
	}
}
