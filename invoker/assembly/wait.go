package assembly

import (
	"context"
	"errors"
	"fmt"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/activation/couchdb"
	"github.com/gpuwhisk/gpuwhisk/activation/outage"
	"github.com/gpuwhisk/gpuwhisk/invoker/container"
)

// openEngine opens the container engine, which must be able to give the devices
// to containers.
func (a *assembly) openEngine(ctx context.Context) error {
	if err := a.awaitEngine(ctx); err != nil {
		return err
	}
	return a.gpus.check(a.engine)
}

func (a *assembly) closeEngine(context.Context) error {
	if a.engine == nil {
		return nil
	}
	return a.engine.Close()
}

// awaitEngine opens the container engine. One that does not answer is waited
// for, like the database: without it nothing could run. What an engine that
// answers will not do, and a setting that is wrong, ends the start.
func (a *assembly) awaitEngine(ctx context.Context) error {
	a.stage.Store("waiting for the " + a.c.Runtimes.Kind + " engine")
	if a.engine = a.Engine; a.engine != nil {
		a.Log.Info("container engine is the caller's")
		return nil
	}
	away := outage.New(a.Log, "start, which needs the container engine,")
	for {
		engine, err := a.newEngine(ctx)
		if err == nil {
			a.engine = engine
			away.Over()
			return nil
		}
		if !errors.Is(err, container.ErrAway) {
			return err
		}
		a.stage.Store("waiting for the container engine: " + err.Error())
		if !away.Failed(ctx, err) {
			return fmt.Errorf("wait for the container engine: %w", err)
		}
	}
}

// openStore opens the database, and reads from it who is blocked.
func (a *assembly) openStore(ctx context.Context, manifest *activation.Manifest) (err error) {
	if a.store, err = couchdb.Open(a.databaseConfig(), manifest); err != nil {
		return err
	}
	if err := a.awaitDatabase(ctx); err != nil {
		return err
	}
	a.refuseBlocked(ctx)
	return nil
}

func (a *assembly) flushStore(ctx context.Context) error {
	if a.store == nil {
		return nil
	}
	return a.store.Flush(ctx)
}

func (a *assembly) closeStore(context.Context) error {
	if a.store == nil {
		return nil
	}
	return a.store.Close()
}

// awaitDatabase waits until the database takes the credentials, has the three
// databases, and takes records: before that no activation could be served, and
// no controller should hear that it can.
func (a *assembly) awaitDatabase(ctx context.Context) error {
	if a.c.Records.Discard { // then there may be no database of records
		return nil
	}
	return a.await(ctx, "CouchDB", a.store.Probe)
}

// await asks a store until it says that all is well.
func (a *assembly) await(ctx context.Context, name string, probe func(context.Context) error) error {
	away := outage.New(a.Log, "start, which needs the database,")
	for {
		err := probe(ctx)
		if err == nil {
			away.Over()
			return nil
		}
		a.stage.Store("waiting for " + name + ": " + err.Error())
		if !away.Failed(ctx, err) {
			return fmt.Errorf("wait for the database: %w", err)
		}
	}
}

// refuseBlocked reads which namespaces are blocked before the first activation
// is: one of theirs must not slip through while the store is still asking. A
// database that does not answer delays the start no longer than blockedTime.
func (a *assembly) refuseBlocked(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, blockedTime)
	defer cancel()
	_ = a.store.RefreshBlacklist(ctx) // told in its health, and asked again
}
