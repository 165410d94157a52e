package sim

import "time"

// rareClaims tell what a rare call waits behind a hundred flows that all have
// work waiting, under each policy. Nobody claimed anything about it.
func rareClaims(c *cells) []claim {
	const section = "Beyond the paper: a call a minute behind a hundred busy functions, load 1.1, ten minutes, 80 GB and 128 containers"
	why := map[string]string{
		mqfq:     "longest queue first leaves it for last, and all inside the window may go before it; but its head is overdue after 40 times what it takes, and its flow is served least",
		plus:     "the same; its first call waits longest, for a function never seen is expected to take a tenth of T",
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
		cell := rareCell(c, policy)
		out = append(out, claim{section, "rare-" + policy, policy + ", mean latency of the rare call", "-", " s",
			func(at reader) float64 { return ofTheRare(at(cell)) }, measured(), why[policy]})
	}
	return out
}

// rareCell is the crowd's run under a policy.
func rareCell(c *cells, policy string) int {
	server := with(func(o *Overrides) { memory := Bytes(80 * gib); o.Memory = &memory })
	return c.kind("rare", policy, server, pool(128), load(1.1), lasting(10*time.Minute))
}

// ofTheRare is the mean latency of the last function, in seconds.
func ofTheRare(r *Result) float64 { return r.Functions[len(r.Functions)-1].Latency.Mean / 1000 }
