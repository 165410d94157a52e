package zookeeper

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// memory is a tree in memory with the rules of the server.
type memory struct {
	mu    sync.Mutex
	nodes map[string]*memoryNode
	// before is called, without the lock, ahead of each operation.
	before func(op, path string) error
}

type memoryNode struct {
	data      []byte
	version   int32
	container bool
}

func newMemory() *memory { return &memory{nodes: map[string]*memoryNode{"/": {}}} }

func (m *memory) enter(op, node string) error {
	if m.before != nil {
		if err := m.before(op, node); err != nil {
			return err
		}
	}
	m.mu.Lock()
	return nil
}

func (m *memory) children(node string) ([]string, error) {
	if err := m.enter("children", node); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	if m.nodes[node] == nil {
		return nil, errNoNode
	}
	var names []string
	for p := range m.nodes {
		if p != "/" && path.Dir(p) == node {
			names = append(names, path.Base(p))
		}
	}
	return names, nil
}

func (m *memory) get(node string) ([]byte, int32, error) {
	if err := m.enter("get", node); err != nil {
		return nil, 0, err
	}
	defer m.mu.Unlock()
	n := m.nodes[node]
	if n == nil {
		return nil, 0, errNoNode
	}
	return n.data, n.version, nil
}

func (m *memory) create(node string, data []byte, container bool) error {
	op := "create"
	if container {
		op = "create container"
	}
	if err := m.enter(op, node); err != nil {
		return err
	}
	defer m.mu.Unlock()
	return insert(m.nodes, node, data, container)
}

func insert(nodes map[string]*memoryNode, node string, data []byte, container bool) error {
	if nodes[node] != nil {
		return errNodeExists
	}
	if nodes[path.Dir(node)] == nil {
		return errNoNode
	}
	nodes[node] = &memoryNode{data: data, container: container}
	return nil
}

func (m *memory) change(steps ...step) error {
	if err := m.enter("change", steps[0].path); err != nil {
		return err
	}
	defer m.mu.Unlock()
	next := maps.Clone(m.nodes)
	for _, s := range steps {
		if err := apply(next, s); err != nil {
			return err
		}
	}
	m.nodes = next
	return nil
}

func apply(nodes map[string]*memoryNode, s step) error {
	if s.kind == create {
		return insert(nodes, s.path, s.data, false)
	}
	n := nodes[s.path]
	switch {
	case n == nil:
		return errNoNode
	case n.version != s.version:
		return errConflict
	case s.kind == remove:
		delete(nodes, s.path)
	default:
		nodes[s.path] = &memoryNode{data: s.data, version: n.version + 1, container: n.container}
	}
	return nil
}

// show renders the tree, a node a line.
func (m *memory) show() string {
	var b strings.Builder
	for _, p := range slices.Sorted(maps.Keys(m.nodes)) {
		kind := "persistent"
		if m.nodes[p].container {
			kind = "container"
		}
		if p != "/" {
			fmt.Fprintf(&b, "%s %s %s\n", p, kind, hex.EncodeToString(m.nodes[p].data))
		}
	}
	return b.String()
}

func run(t *testing.T, m tree, name string) int {
	t.Helper()
	id, err := (&assigner{name: name, containers: true}).assign(t.Context(), m)
	if err != nil {
		t.Fatalf("assign %s: %v", name, err)
	}
	return id
}

func runOverwrite(t *testing.T, m tree, name string, id int) error {
	t.Helper()
	_, err := (&assigner{name: name, containers: true}).overwrite(t.Context(), m, id)
	return err
}

func TestAssignCountsNames(t *testing.T) {
	m := newMemory()
	for want, name := range []string{"foo", "bar", "cat"} {
		check.Equal(t, run(t, m, name), want, "%s", name)
	}
	check.Equal(t, run(t, m, "bar"), 1)
	want := `/invokers container 
/invokers/idAssignment container 
/invokers/idAssignment/counter persistent 00000003
/invokers/idAssignment/mapping container 
/invokers/idAssignment/mapping/bar persistent 01
/invokers/idAssignment/mapping/cat persistent 02
/invokers/idAssignment/mapping/foo persistent 00
`
	check.Equal(t, m.show(), want)
}

// The story of the original's own test: InstanceIdAssignerTests.
func TestOverwriteTakesTheNumber(t *testing.T) {
	m := newMemory()
	run(t, m, "foo")
	check.NoError(t, runOverwrite(t, m, "bar", 0))
	if _, _, err := m.get(mappingPath + "/foo"); !errors.Is(err, errNoNode) {
		t.Errorf("foo still has a number: %v", err)
	}
	for _, tt := range []struct {
		name string
		want int
	}{{"bar", 0}, {"foo", 1}, {"cat", 2}} {
		check.Equal(t, run(t, m, tt.name), tt.want, "%s", tt.name)
	}
}

func TestOverwriteMovesANameToAnotherNumber(t *testing.T) {
	m := newMemory()
	run(t, m, "a")
	run(t, m, "b")
	counter := m.nodes[counterPath]
	check.NoError(t, runOverwrite(t, m, "a", 1))
	check.Equal(t, run(t, m, "a"), 1)
	if m.nodes[mappingPath+"/b"] != nil {
		t.Error("b still has the number that a took")
	}
	if m.nodes[counterPath] != counter {
		t.Error("the counter was touched")
	}
}

func TestOverwriteRefuses(t *testing.T) {
	m := newMemory()
	check.ErrorContains(t, runOverwrite(t, m, "a", 0), "no invoker has an id yet")
	run(t, m, "a")
	check.ErrorContains(t, runOverwrite(t, m, "b", 2), "would leave a gap")
	check.NoError(t, runOverwrite(t, m, "b", 1), "the next id itself")
}

// TestAssignYieldsToAConcurrentAssigner: another invoker takes the number after we read
// the counter and before we change it.
func TestAssignYieldsToAConcurrentAssigner(t *testing.T) {
	m := newMemory()
	run(t, m, "zero")
	done := false
	m.before = func(op, _ string) error {
		if op == "change" && !done {
			done = true
			if got := run(t, m, "other"); got != 1 {
				t.Errorf("other got %d, want 1", got)
			}
		}
		return nil
	}
	check.Equal(t, run(t, m, "mine"), 2)
}

func TestOverwriteReadsAgainAfterAChange(t *testing.T) {
	m := newMemory()
	run(t, m, "a")
	run(t, m, "b")
	done := false
	m.before = func(op, _ string) error {
		if op == "change" && !done {
			done = true
			return runOverwrite(t, m, "c", 1) // b goes
		}
		return nil
	}
	check.NoError(t, runOverwrite(t, m, "d", 1))
	names, _ := m.children(mappingPath)
	slices.Sort(names)
	check.EqualSlices(t, names, []string{"a", "d"})
}

func TestManyAssignersNeverShareANumber(t *testing.T) {
	m := newMemory()
	const n = 20
	ids := make([]int, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			ids[i], _ = (&assigner{name: fmt.Sprint("i", i), containers: true}).assign(t.Context(), m)
		})
	}
	wg.Wait()
	slices.Sort(ids)
	for i, id := range ids {
		if id != i {
			t.Fatalf("numbers are %v", ids)
		}
	}
}

func TestServersWithoutContainerNodes(t *testing.T) {
	m := newMemory()
	m.before = func(op, _ string) error {
		if op == "create container" {
			return errNotServed
		}
		return nil
	}
	check.Equal(t, run(t, m, "a"), 0)
	check.Lacks(t, m.show(), "container")
}

// An empty container node may be removed by the server at any time.
func TestMappingVanishesWhileAssigning(t *testing.T) {
	m := newMemory()
	done := false
	m.before = func(op, _ string) error {
		if op == "change" && !done {
			done = true
			delete(m.nodes, mappingPath)
		}
		return nil
	}
	check.Equal(t, run(t, m, "a"), 0)
}

func TestErrorsStopTheAssignment(t *testing.T) {
	broken := errors.New("broken")
	for _, op := range []string{"get", "create", "create container", "children", "change"} {
		m := newMemory()
		m.before = func(o, _ string) error {
			if o == op {
				return broken
			}
			return nil
		}
		_, err := (&assigner{name: "a", containers: true}).assign(t.Context(), m)
		check.ErrorIs(t, err, broken, "%s", op)
	}
}

func TestGarbageInTheMappingIsAnError(t *testing.T) {
	m := newMemory()
	run(t, m, "a")
	m.nodes[mappingPath+"/a"].data = []byte{0xff}
	_, err := (&assigner{name: "a"}).assign(t.Context(), m)
	check.ErrorIs(t, err, errNumber)
}

func TestContentionEndsWithTheContext(t *testing.T) {
	m := newMemory()
	ctx, cancel := context.WithCancel(t.Context())
	m.before = func(op, _ string) error {
		if op == "change" {
			cancel()
			return errConflict
		}
		return nil
	}
	if _, err := (&assigner{name: "a", containers: true}).assign(ctx, m); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
