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

// Namespace is a tenant of the installation. Without a key it has its key from the
// database, or else a new one.
type Namespace = couchdb.Namespace

// The namespace of every development installation of OpenWhisk, and the key that all
// those installations share. Here a key is generated for each database instead.
const (
	guest     = "guest"
	sharedKey = "123zO3xZCLrMN6v2BKK1dXYFpXlPkccOFqm12CdAsMgRU4VrNZ9lyGVCGuMDGIwP"
)

// ParseNamespace parses the value of --namespace, NAME:UUID:KEY or NAME.
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

// namespaces returns guest and the requested namespaces, without duplicates.
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

// openNamespace sets the key of a namespace and creates its missing documents. In an
// external database, which others use too, it changes no key. In the embedded store, a
// given key replaces the old one, and a new key replaces the key that all installations
// once shared.
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
		return fmt.Errorf("--namespace %s: the database of --couchdb has another key for this namespace, which stays; give the name alone", n.Name)
	case has.Key == sharedKey && !given:
		s.log.Warn("the key of guest, which every OpenWhisk has, is replaced by one of this data directory's own", "data", s.opts.Data)
	}
	if !given {
		n.UUID, n.Key = cmp.Or(has.UUID, randomText(16)), randomText(32)
	}
	return c.PutSubject(ctx, couchdb.Subject{Name: n.Name, Namespaces: []Namespace{*n}})
}
