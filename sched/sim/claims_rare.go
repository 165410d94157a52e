package sim

import "time"

// rareClaims tell what a rare call waits behind a hundred flows that all have
// work waiting, under each policy. Nobody claimed anything about it.
func rareClaims(c *cells) []claim {
	const section = "Beyond the paper: a call a minute behind a hundred busy functions, load 1.1, ten minutes, 80 GB and 128 containers"
	server := with(func(o *Overrides) { memory := Bytes(80 * gib); o.Memory = &memory })
	why := map[string]string{
		mqfq:     "all inside the window may go before it, longest queue first, and its own is the shortest: the price of T with many flows",
		plus:     "the same window; who waited long for its service goes first, and in a crowd that is behind everybody has",
		"mqfq":   "its virtual time is among the least, so only flows as far behind go first",
		"sfq":    "the same with one run at a time, which serves less than is asked for",
		"fcfs":   "it waits for all that came before it, and that grows",
		"batch":  "it is in line by its age, behind whole queues",
		"paella": "expected alike, who has gone without for longest has the deficit that goes first",
		"sjf":    "all are expected to take about the same, so what was measured of each decides, and seeds differ",
		"eevdf":  "nearly the order of arrival",
	}
	var out []claim
	for _, policy := range PolicyNames() {
		if policyInfo(policy).NoPool {
			continue
		}
		cell := c.kind("rare", policy, server, pool(128), load(1.1), lasting(10*time.Minute))
		out = append(out, claim{section, "rare-" + policy, policy + ", mean latency of the rare call", "-", " s",
			func(at reader) float64 {
				fns := at(cell).Functions
				return fns[len(fns)-1].Latency.Mean / 1000
			}, measured(), why[policy]})
	}
	return out
}
