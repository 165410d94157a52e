package sim

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// TestRunsOfPicturesAreRuns reads all runs that docs/figures/draw.py needs.
func TestRunsOfPicturesAreRuns(t *testing.T) {
	out, err := exec.Command("python3", "../../docs/figures/draw.py", "--list-runs").Output()
	check.NoError(check.Must(t), err)
	check.AtLeast(t, strings.Count(string(out), "\n"), 200)
	check.NoError(t, CheckRuns(string(out)))
}

// TestRunsTableHasARowForEachSeedAndFunction makes two runs twice.
func TestRunsTableHasARowForEachSeedAndFunction(t *testing.T) {
	t.Parallel()
	const text = "copies fcfs duration=1m\n\n  copies mqfq-sticky duration=1m\ncopies fcfs duration=1m\n"
	var tables [2]Table
	for i := range tables {
		var err error
		tables[i], err = RunsTable(t.Context(), text, 2, 0, nil)
		check.NoError(check.Must(t), err)
	}
	check.Equal(t, tables[0].Markdown(), tables[1].Markdown(), "the second time")
	rows := tables[0].Rows
	check.Equal(check.Must(t), len(rows), 2*2*(1+4))
	check.Equal(t, strings.Join(rows[0][:3], ","), "copies fcfs duration=1m,1,")
	check.Equal(t, strings.Join(rows[1][:3], ","), "copies fcfs duration=1m,1,low-1")
	check.Equal(t, rows[19][0], "copies mqfq-sticky duration=1m")
	for _, row := range rows {
		check.Equal(t, len(row), len(tables[0].Head))
		for _, cell := range row {
			check.Lacks(t, cell, "NaN", "%v", row)
			check.Lacks(t, cell, "Inf", "%v", row)
		}
	}
}

// TestLineThatIsNoRunIsAnError names the line.
func TestLineThatIsNoRunIsAnError(t *testing.T) {
	for line, want := range map[string]string{"zipf": `run "zipf": want a workload`, "zipf fifo": "--policy", "zipf fcfs colour=red": "--colour"} {
		check.ErrorContains(t, CheckRuns("zipf fcfs\n"+line), want)
	}
}
