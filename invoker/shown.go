package invoker

import (
	"github.com/gpuwhisk/gpuwhisk/gpu/lane"
	"github.com/gpuwhisk/gpuwhisk/invoker/container"
)

// shown is what was last shown of containers. An open console asks once a second,
// and most of thousands are as they were: what has not changed is given again. They
// are in the order in which they were made, so that a list differs from the one
// before by what is gone and by what is new at its end.
type shown struct {
	// boxes has nil where a container is gone, and so has list.
	boxes []*box
	list  []*ContainerStatus
	gone  int
}

func (s *shown) enter(b *box) {
	b.place = len(s.boxes)
	s.boxes, s.list = append(s.boxes, b), append(s.list, nil)
}

func (s *shown) leave(b *box) {
	s.boxes[b.place], s.list[b.place] = nil, nil
	if s.gone++; s.gone > len(s.boxes)/4+16 {
		s.close()
	}
}

// close closes the gaps.
func (s *shown) close() {
	n := 0
	for i, b := range s.boxes {
		if b != nil {
			b.place = n
			s.boxes[n], s.list[n] = b, s.list[i]
			n++
		}
	}
	clear(s.boxes[n:])
	clear(s.list[n:])
	s.boxes, s.list, s.gone = s.boxes[:n], s.list[:n], 0
}

// put notes how a container is now.
func (s *shown) put(b *box, next ContainerStatus) {
	if last := s.list[b.place]; last == nil || *last != next {
		s.list[b.place] = &next
	}
}

// all copies the list.
func (s *shown) all() []*ContainerStatus {
	out := make([]*ContainerStatus, 0, len(s.list)-s.gone)
	for _, c := range s.list {
		if c != nil {
			out = append(out, c)
		}
	}
	return out
}

// pooled notes how containers of the CPU lane are.
func (d *dispatcher) pooled(views []container.View) {
	for _, v := range views {
		if b := d.boxes[v.Slot]; b != nil {
			d.shown.put(b, ContainerStatus{Name: b.name, Kind: v.Kind, State: v.State, MemoryMB: v.MemoryMB, Active: v.Active})
		}
	}
}

// status is what is to be seen of a GPU container.
func (b *box) status(s lane.BoxStats) ContainerStatus {
	if b.gpu.names[0] == "" {
		b.gpu.names = [2]string{b.gpu.device.String(), s.Flow.String()}
	}
	st := ContainerStatus{
		Name: b.name, Kind: b.spec.Kind, MemoryMB: b.spec.MemoryMB, State: "ready", Device: b.gpu.names[0], Flow: b.gpu.names[1],
		Resident: s.Resident, Coming: s.Coming, Context: s.Context,
	}
	switch {
	case s.Leaving:
		st.State = "removing"
	case s.Runs > 0:
		st.State, st.Active = "running", s.Runs
	}
	return st
}

// furnished shows what was not known of a container when it was shown first.
func (s *shown) furnished(b *box) {
	if last := s.list[b.place]; last != nil {
		next := *last
		next.Kind, next.MemoryMB = b.spec.Kind, b.spec.MemoryMB
		s.put(b, next)
	}
}
