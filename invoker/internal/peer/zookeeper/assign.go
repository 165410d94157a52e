package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"path"
)

// The nodes of the original. Parents are container nodes where the server has
// those, so that an empty mapping cleans itself up.
const (
	assignmentPath = "/invokers/idAssignment"
	mappingPath    = assignmentPath + "/mapping"
	counterPath    = assignmentPath + "/counter"
)

// The expected errors of a tree.
var (
	errAway       = errors.New("zookeeper is away") // try again later
	errNoNode     = errors.New("no such node")
	errNodeExists = errors.New("node exists")
	errConflict   = errors.New("changed meanwhile")
	errNotServed  = errors.New("not served by this server")
)

// tree is the part of a ZooKeeper session that the assignment needs. Each
// call is one operation of the server, change all or nothing.
type tree interface {
	children(path string) ([]string, error)
	get(path string) (data []byte, version int32, err error)
	create(path string, data []byte, container bool) error
	change(steps ...step) error
}

// step is one part of a change: create makes a node, set and remove demand
// that it still has the version.
type step struct {
	kind    stepKind
	path    string
	data    []byte
	version int32
}

type stepKind int

const (
	create stepKind = iota
	set
	remove
)

// assigner settles numbers in a tree.
type assigner struct {
	name       string
	containers bool // the server may have container nodes
}

// nodeOf is the node that keeps the number of a name.
func nodeOf(name string) string { return path.Join(mappingPath, name) }

// number reads the number of a name.
func number(t tree, name string) (int, error) {
	data, _, err := t.get(nodeOf(name))
	if err != nil {
		return 0, err
	}
	id, err := decodeID(data)
	if err != nil {
		return 0, fmt.Errorf("read %s: %w (% x)", nodeOf(name), err, data)
	}
	return id, nil
}

// assign returns the number of the name. A new name gets the next number, which is the
// number of names so far. The counter and the mapping change in one transaction, so two
// assigners never use the same count. The counter's version decides which assigner is
// first, as between original invokers.
func (a *assigner) assign(ctx context.Context, t tree) (int, error) {
	return settle(ctx, func() (int, error) {
		id, err := number(t, a.name)
		if errors.Is(err, errNoNode) {
			return a.tryNext(t)
		}
		return id, err
	})
}

// tryNext tries to take the next number once.
func (a *assigner) tryNext(t tree) (int, error) {
	if err := a.ensure(t, counterPath, encodeCounter(0), false); err != nil {
		return 0, err
	}
	_, version, err := t.get(counterPath)
	if err != nil {
		return 0, err
	}
	if err := a.ensure(t, mappingPath, nil, true); err != nil {
		return 0, err
	}
	names, err := t.children(mappingPath)
	if err != nil {
		return 0, err
	}
	id := len(names)
	return id, t.change(
		step{set, counterPath, encodeCounter(id + 1), version},
		step{create, nodeOf(a.name), encodeID(id), 0},
	)
}

// overwrite takes a number from the invoker that has it. Numbers stay dense: it may be
// at most the number of names so far.
func (a *assigner) overwrite(ctx context.Context, t tree, id int) (int, error) {
	return settle(ctx, func() (int, error) { return id, a.seize(t, id) })
}

// settle tries again as long as others change the tree meanwhile.
func settle(ctx context.Context, try func() (int, error)) (int, error) {
	for {
		id, err := try()
		if !errors.Is(err, errConflict) && !errors.Is(err, errNodeExists) && !errors.Is(err, errNoNode) {
			return id, err
		}
		if err := ctx.Err(); err != nil {
			return 0, err
		}
	}
}

// seize tries once to make this invoker's name the only holder of id. It removes all other
// holders in the same transaction. It returns an error if a name changes meanwhile.
func (a *assigner) seize(t tree, id int) error {
	names, err := t.children(mappingPath)
	if errors.Is(err, errNoNode) {
		return fmt.Errorf("overwrite id %d: no invoker has an id yet, %s does not exist", id, mappingPath)
	}
	if err != nil {
		return err
	}
	if len(names) < id {
		return fmt.Errorf("overwrite id %d: only %d ids are assigned, so it would leave a gap", id, len(names))
	}
	mine := step{create, nodeOf(a.name), encodeID(id), 0}
	var steps []step
	for _, name := range names {
		node := nodeOf(name)
		data, version, err := t.get(node)
		if err != nil {
			return err
		}
		if name == a.name {
			mine = step{set, node, encodeID(id), version}
		} else if taken, err := decodeID(data); err == nil && taken == id {
			steps = append(steps, step{remove, node, nil, version})
		}
	}
	return t.change(append(steps, mine)...)
}

// ensure makes a node and its parents where they are missing.
func (a *assigner) ensure(t tree, node string, data []byte, container bool) error {
	err := a.make(t, node, data, container)
	if errors.Is(err, errNoNode) {
		if err = a.ensure(t, path.Dir(node), nil, true); err == nil {
			err = a.make(t, node, data, container)
		}
	}
	if errors.Is(err, errNodeExists) {
		return nil
	}
	return err
}

// make falls back to persistent nodes on servers without container nodes
// (before ZooKeeper 3.5).
func (a *assigner) make(t tree, node string, data []byte, container bool) error {
	err := t.create(node, data, container && a.containers)
	if errors.Is(err, errNotServed) && container && a.containers {
		a.containers = false
		return t.create(node, data, false)
	}
	return err
}
