package sim
import ("testing";"fmt";"context";"os")
func TestScratchGrid(t *testing.T) {
	nseeds := int(env("SEEDS",8))
	type cell struct{pool,d int; load float64}
	var cells []cell
	for _, pool := range []int{8,16,24,32} { for _, load := range []float64{0.3,0.5,0.7,0.85,0.95} { for _, d := range []int{1,2,3} { cells = append(cells, cell{pool,d,load}) } } }
	var tasks []Task
	for _, c := range cells { for seed := 1; seed <= nseeds; seed++ { for _, n := range []string{"mqfq-sticky","sticky-plus"} {
		p, _ := DefaultParams(n); p.Tokens.Max=c.d; p.Pool.Size=c.pool
		if n == "sticky-plus" { 
			if os.Getenv("AGED")=="0" { p.Sched.Aged=false }
			if os.Getenv("WAIT")=="0" { p.Sched.Wait=false }
			if os.Getenv("LOC")=="0" { p.Sched.Locality=false }
			if os.Getenv("CORR")=="0" { p.Sched.Correct=false }
			if os.Getenv("PREF")=="0" { p.PrefetchNext=false }
			if x:=env("HEADP",-1); x>=0 { p.Headroom=int64(x*gib) }
			if x:=env("PAT",-1); x>=0 { p.Sched.Patience=seconds(x) }
			if x:=env("T",-1); x>=0 { p.Sched.Overrun=seconds(x) }
		}
		s := DefaultSpec(); s.Seed=uint64(seed); s.Load=c.load
		tasks = append(tasks, Task{Spec: s.For(p), Params: p})
	}}}
	rs, err := RunAll(context.Background(), tasks, 2, nil)
	if err != nil { t.Fatal(err) }
	i := 0
	worst := 0.0; var meds []float64
	for _, c := range cells {
		var ratio, rp99, mean, lb, gap []float64
		for s := 0; s < nseeds; s++ {
			a, b := rs[i], rs[i+1]; i += 2
			ratio = append(ratio, b.Latency.Mean/a.Latency.Mean); rp99 = append(rp99, b.Latency.P99/a.Latency.P99)
			mean = append(mean, a.Latency.Mean/1000); lb = append(lb, a.LowerBound/1000)
			gap = append(gap, b.GapBacklogged.Max/b.GapBound)
		}
		r := SpreadOf(ratio)
		if r.Median > worst { worst = r.Median }; meds = append(meds, r.Median)
		if os.Getenv("Q")=="" || r.Median > 1 || c==(cell{16,2,0.7}) {
		fmt.Printf("pool %d load %.2f D %d: sticky %.1f lb %.2f ratio %.2f [%.2f %.2f] p99 %.2f gap %.2f\n", c.pool, c.load, c.d, q(mean,.5), q(lb,.5), r.Median, r.Q10, r.Q90, q(rp99,.5), q(gap,1)) }
	}
	fmt.Println("worst", worst, "median", q(meds,.5))
}
