package sched

// fcfs goes by the age of the head alone, which is arrival order: the heads of
// all flows hold the oldest item.
type fcfs struct{ plain }
