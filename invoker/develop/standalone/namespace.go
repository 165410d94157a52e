package standalone

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/couchdb"
)

// Namespace is a tenant of the installation. Without a key it has the one that the
// database has for it, or else a new one.
type Namespace = couchdb.Namespace

// The namespace of every development installation of OpenWhisk, and the key that all of
// them share. Here the key is made for each database instead.
const (
	guest     = "guest"
	sharedKey = "123zO3xZCLrMN6v2BKK1dXYFpXlPkccOFqm12CdAsMgRU4VrNZ9lyGVCGuMDGIwP"
)

// ParseNamespace reads NAME:UUID:KEY or NAME, as --namespace takes it.
func ParseNamespace(s string) (Namespace, error) {
	parts := strings.SplitN(s, ":", 3)
	switch {
	case parts[0] == "":
		return Namespace{}, errors.New("--namespace: want NAME or NAME:UUID:KEY")
	case !activation.ValidName(parts[0]):
		return Namespace{}, fmt.Errorf("--namespace %q: a name has letters, digits, blanks and _@.&- only, 256 at most", parts[0])
	case len(parts) == 1:
		return Namespace{Name: parts[0]}, nil
	case len(parts) != 3 || parts[1] == "" || parts[2] == "":
		return Namespace{}, fmt.Errorf("--namespace %s: want NAME or NAME:UUID:KEY", parts[0])
	}
	return Namespace{Name: parts[0], UUID: parts[1], Key: parts[2]}, nil
}

// namespaces are guest and those that were asked for, each once.
func namespaces(asked []Namespace) []Namespace {
	all := []Namespace{{Name: guest}}
	for _, n := range asked {
		if i := indexOf(all, n.Name); i >= 0 {
			all[i] = n
		} else {
			all = append(all, n)
		}
	}
	return all
}

func indexOf(all []Namespace, name string) int {
	return slices.IndexFunc(all, func(n Namespace) bool { return n.Name == name })
}

// openNamespace gives a namespace its key and makes what is missing of it. In a database
// elsewhere, which others use too, no key is changed. In our own a given key replaces
// another, and a new one the key that every installation once had.
func (s *Standalone) openNamespace(ctx context.Context, c *couchdb.Client, n *Namespace) error {
	subject, err := c.Subject(ctx, n.Name)
	if err != nil && !errors.Is(err, couchdb.ErrNotFound) {
		return fmt.Errorf("read subject %s: %w", n.Name, err)
	}
	var has Namespace
	if i := indexOf(subject.Namespaces, n.Name); i >= 0 {
		has = subject.Namespaces[i]
	}
	elsewhere, given := s.opts.CouchDB != "", n.Key != ""
	switch {
	case has.Key != "" && !given && (elsewhere || has.Key != sharedKey), has == *n:
		*n = has
		return nil
	case elsewhere && err == nil:
		return fmt.Errorf("--namespace %s: the database of --couchdb has another key for it, which stays; give the name alone", n.Name)
	case has.Key == sharedKey && !given:
		s.log.Warn("the key of guest, which every OpenWhisk has, is replaced by one of this data directory's own", "data", s.opts.Data)
	}
	if !given {
		n.UUID, n.Key = cmp.Or(has.UUID, randomText(16)), randomText(32)
	}
	return c.PutSubject(ctx, couchdb.Subject{Name: n.Name, Namespaces: []Namespace{*n}})
}
