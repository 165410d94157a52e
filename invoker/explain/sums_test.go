package explain

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestFunctionsFollow: who asks again and again hears what one hears who asks
// for the first time.
func TestFunctionsFollow(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 1))
		l, now := NewLog(50), 0
		for range 200 {
			for range r.IntN(20) * r.IntN(5) {
				now += r.IntN(40)
				name := fmt.Sprint("guest/f", r.IntN(12))
				l.Add(&Account{ID: fmt.Sprint(now), Namespace: "guest", Action: name, Start: []string{"", "cold", "warmed"}[r.IntN(3)],
					Queued: at(now - 900), Granted: at(now - r.IntN(900)), Accepted: at(now - 900), Answered: at(now), Status: r.IntN(2)})
			}
			now += r.IntN(3) * 100
			since := at(now - []int{300, 1000, 5000}[r.IntN(3)])
			fresh := &Log{ring: l.ring, next: l.next, full: l.full, seen: l.seen}
			got, want := l.Functions(since), fresh.Functions(since)
			for _, list := range [][]*Function{got, want} {
				slices.SortFunc(list, func(a, b *Function) int { return strings.Compare(a.Function, b.Function) })
			}
			if !reflect.DeepEqual(got, want) {
				t.Fatalf("seed %d: got %v, want %v", seed, got, want)
			}
		}
	}
}

// TestFunctionsStay: nothing is made again of a function that did not run.
func TestFunctionsStay(t *testing.T) {
	l := NewLog(100)
	add := func(name string, i int) {
		l.Add(&Account{ID: name, Namespace: "guest", Action: name, Start: "cold", Accepted: at(i), Answered: at(i)})
	}
	add("guest/f", 1)
	add("guest/g", 2)
	first := l.Functions(at(0))
	add("guest/g", 3)
	second := l.Functions(at(0))
	if first[0] != second[0] || first[1] == second[1] || first[1].Count != 1 || second[1].Count != 2 {
		t.Errorf("%+v, then %+v", first, second)
	}
	for i := range 201 { // nobody asks meanwhile
		add("guest/h", 10+i)
	}
	if l.sums != nil {
		t.Error("sums are kept of what has gone")
	}
	if got := l.Functions(epoch.Add(-time.Hour)); len(got) != 1 || got[0].Count != 100 {
		t.Errorf("%+v", got)
	}
}
