package sim

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// readAzure2019 reads the Azure Functions 2019 invocation counts: one row a
// function, one column a minute. The calls of a minute are placed at random
// within it. Costs come from the functions table, which may be the data set's
// own file of execution times.
func (b *book) readAzure2019() error {
	if b.trace.Functions == nil {
		return fmt.Errorf("--functions: Azure 2019 counts say nothing of costs: give a table of functions or the data set's function durations")
	}
	t, err := newTable(b.trace.Name, b.trace.Data, map[string][]string{
		"function": {"HashFunction"},
	})
	if err != nil {
		return err
	}
	minutes, err := minuteColumns(t)
	if err != nil {
		return err
	}
	for {
		ok, err := t.next()
		if !ok || err != nil {
			return err
		}
		name, err := t.text("function")
		if err != nil {
			return err
		}
		fn, ok := b.index[name]
		if !ok {
			return t.complain("function %s is not in %s", name, b.trace.FunctionsName)
		}
		if err := b.minutes(t, fn, minutes); err != nil {
			return err
		}
	}
}

// minuteColumns finds the columns named 1, 2, 3 and so on; a minute is
// sixty thousand milliseconds.
func minuteColumns(t *table) ([]int, error) {
	var columns []int
	for i, h := range t.header {
		n, err := strconv.Atoi(h)
		if err != nil {
			continue
		}
		if n != len(columns)+1 {
			return nil, t.complain("minute column %d where %d should follow", n, len(columns)+1)
		}
		columns = append(columns, i)
	}
	if len(columns) == 0 {
		return nil, t.complain("no minute columns 1, 2, 3, ...")
	}
	return columns, nil
}

func (b *book) minutes(t *table, fn int32, columns []int) error {
	r := stream(b.trace.Seed, uint64(t.line))
	for m, column := range columns {
		count, err := t.numberAt(fmt.Sprintf("minute %d", m+1), column, 0, MaxArrivals)
		if err != nil {
			return err
		}
		if count != math.Trunc(count) {
			return t.complain("minute %d: %v calls", m+1, count)
		}
		for range int(count) {
			at := time.Duration(m)*time.Minute + seconds(r.Float64()*60)
			if err := b.arrive(t, Arrival{At: at, Function: fn}); err != nil {
				return err
			}
		}
	}
	return nil
}

// readAzure2021 reads the Azure Functions 2021 rows: app, func, end_timestamp
// and duration in seconds. An arrival is end less duration, moved so that the
// first is at zero; each keeps its own duration. Without a row in the
// functions table a function is given the mean of its durations as warm time.
func (b *book) readAzure2021() error {
	t, err := newTable(b.trace.Name, b.trace.Data, map[string][]string{
		"app": {"app"}, "func": {"func"}, "end_timestamp": {"end_timestamp"}, "duration": {"duration"},
	})
	if err != nil {
		return err
	}
	known := len(b.functions)
	first := math.Inf(1)
	var starts []float64
	for {
		ok, err := t.next()
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		start, err := b.azure2021Row(t)
		if err != nil {
			return err
		}
		starts = append(starts, start)
		first = min(first, start)
	}
	for i := range b.arrivals {
		b.arrivals[i].At = seconds(starts[i] - first)
		b.horizon = max(b.horizon, b.arrivals[i].At)
	}
	b.learn(known)
	return nil
}

func (b *book) azure2021Row(t *table) (start float64, err error) {
	app, err := t.text("app")
	if err != nil {
		return 0, err
	}
	function, err := t.text("func")
	if err != nil {
		return 0, err
	}
	end, err := t.number("end_timestamp", 0, maxTime.Seconds())
	if err != nil {
		return 0, err
	}
	duration, err := t.number("duration", 0, maxCost.Seconds())
	if err != nil {
		return 0, err
	}
	name := app + "/" + function
	fn, ok := b.index[name]
	if !ok {
		if fn, err = b.add(t, Function{Name: name, Memory: b.trace.Memory}); err != nil {
			return 0, err
		}
	}
	// The data set rounds the shortest runs to nothing.
	duration = max(duration, 0.001)
	b.warm[fn].add(duration)
	return end - duration, b.arrive(t, Arrival{Function: fn, Work: seconds(duration)})
}

// learn gives functions beyond the first known their costs from the trace.
func (b *book) learn(known int) {
	for i := known; i < len(b.functions); i++ {
		f := &b.functions[i]
		f.Warm = max(seconds(b.warm[i].sum/float64(max(1, b.warm[i].n))), time.Microsecond)
		f.Cold = f.Warm + b.trace.ColdExtra
		if b.cold[i].n > 0 {
			f.Cold = f.Warm + seconds(b.cold[i].sum/float64(b.cold[i].n))
		}
		f.Cold = min(f.Cold, maxCost)
	}
}
