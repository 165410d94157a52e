package sim

import (
	"fmt"
	"time"
)

// hog floods: one function asks for the whole device on its own, over the
// normal traffic of the zipf class.
func hog(s Spec) (*Workload, error) {
	w, err := zipf(s)
	if err != nil {
		return nil, err
	}
	w.Name = "hog"
	attacker := named("pathfinder", "hog")
	i := len(w.Functions)
	w.Functions = append(w.Functions, attacker)
	w.Arrivals = renew(w.Arrivals, stream(s.Seed, 1<<34), i, exponential, 1/attacker.Warm.Seconds(), 0, s.Duration)
	return w, nil
}

// tiny is a thousand functions that are each called about once an hour, so that
// none can stay warm and each counts as a flow, over eight common functions.
func tiny(s Spec) (*Workload, error) {
	few := s
	few.Functions = 8
	w, err := zipf(few)
	if err != nil {
		return nil, err
	}
	w.Name = "tiny"
	for k := range 1000 {
		f := Function{Name: fmt.Sprintf("tiny-%04d", k), Warm: 10 * time.Millisecond, Cold: 300 * time.Millisecond, Memory: 64 * mib}
		i := len(w.Functions)
		w.Functions = append(w.Functions, f)
		w.Arrivals = renew(w.Arrivals, stream(s.Seed, 1<<35+uint64(k)), i, exponential, 1.0/3600, 0, s.Duration)
	}
	return w, nil
}

// liar earns a small estimate with forty short runs, then sends ten of eight
// seconds, over and over: whoever charges by the estimate alone undercharges.
func liar(s Spec) (*Workload, error) {
	w, err := zipf(s)
	if err != nil {
		return nil, err
	}
	w.Name = "liar"
	i := len(w.Functions)
	w.Functions = append(w.Functions, Function{
		Name: "liar", Warm: 20 * time.Millisecond, Cold: 2 * time.Second, Memory: gib,
	})
	for n, at := 0, time.Duration(0); at < s.Duration; n, at = n+1, at+4*time.Second {
		a := Arrival{At: at, Function: int32(i)}
		if n%50 >= 40 {
			a.Work = 8 * time.Second
		}
		w.Arrivals = append(w.Arrivals, a)
	}
	return w, nil
}

// onOff stays away for three minutes, longer than the TTL of its flow, then
// sends a hundred calls at once: a policy that gives a returning flow the
// virtual time it left with would let it own the device.
func onOff(s Spec) (*Workload, error) {
	w, err := zipf(s)
	if err != nil {
		return nil, err
	}
	w.Name = "onoff"
	i := len(w.Functions)
	w.Functions = append(w.Functions, named("fft", "onoff"))
	for at := 3 * time.Minute; at < s.Duration; at += 3 * time.Minute {
		for k := range 100 {
			t := min(at+time.Duration(k)*time.Millisecond, s.Duration-time.Microsecond)
			w.Arrivals = append(w.Arrivals, Arrival{At: t, Function: int32(i)})
		}
	}
	return w, nil
}
