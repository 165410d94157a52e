package sched

import (
	"fmt"
	"math"
	"time"
)

// SetWeight sets a flow's weight. The weight is forgotten with the flow. Earlier charges
// stay as they were.
func (s *Scheduler) SetWeight(now time.Duration, id FlowID, weight float64) error {
	if err := checkWeight("flow "+id.String(), weight); err != nil {
		return err
	}
	s.clock(now)
	f := s.flows[id]
	if f == nil {
		if weight == 1 {
			return nil
		}
		f = s.flowOf(id)
		s.expire(f, s.now)
	}
	f.weight = weight
	return nil
}

// SetNamespaceWeight sets a namespace's weight; it needs Config.Namespaces.
func (s *Scheduler) SetNamespaceWeight(now time.Duration, namespace string, weight float64) error {
	if !s.cfg.Namespaces {
		return fmt.Errorf("set weight of namespace %s: Namespaces is off", namespace)
	}
	if err := checkWeight("namespace "+namespace, weight); err != nil {
		return err
	}
	s.clock(now)
	s.nsWeights[namespace] = weight
	if weight == 1 {
		delete(s.nsWeights, namespace)
	}
	if g, ok := s.groups[namespace]; ok {
		g.weight = weight
	}
	return nil
}

func checkWeight(what string, w float64) error {
	if math.IsNaN(w) || w < minWeight || w > maxWeight {
		return fmt.Errorf("set weight of %s to %v: must be from %v to %v", what, w, minWeight, maxWeight)
	}
	return nil
}
