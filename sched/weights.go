package sched

import (
	"fmt"
	"time"
)

// SetWeight sets a flow's weight, and makes it known if it is not. The weight is
// forgotten with the flow. What was charged before stays as it was.
func (s *Scheduler) SetWeight(now time.Duration, id FlowID, weight float64) error {
	if err := checkWeight("flow "+id.String(), weight); err != nil {
		return err
	}
	s.clock(now)
	f := s.byID.find(id)
	if f == nil {
		if weight == 1 {
			return nil
		}
		f = s.flowOf(id)
		f.rest, f.when = expired, s.now+int64(s.cfg.KeepInactive)
		s.inactive.push(f.slot, f.when, f.serial)
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
	if g, ok := s.byName[namespace]; ok {
		g.weight = weight
	}
	return nil
}
