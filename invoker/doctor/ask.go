package doctor

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation/couchdb"
	"github.com/gpuwhisk/gpuwhisk/activation/kafka"
	"github.com/gpuwhisk/gpuwhisk/activation/records"
	"github.com/gpuwhisk/gpuwhisk/invoker/container"
	"github.com/gpuwhisk/gpuwhisk/invoker/docker"
	"github.com/gpuwhisk/gpuwhisk/invoker/proxy"
	"github.com/gpuwhisk/gpuwhisk/invoker/stores"
	"github.com/gpuwhisk/gpuwhisk/invoker/tlsstore"
	"github.com/gpuwhisk/gpuwhisk/invoker/zookeeper"
)

func (r *real) broker(ctx context.Context, address string) (kafka.Survey, error) {
	t, err := tlsstore.Kafka(r.Config.Kafka)
	if err != nil {
		return kafka.Survey{}, err
	}
	login, err := r.Config.Kafka.Login()
	if err != nil {
		return kafka.Survey{}, err
	}
	c, err := kafka.New(kafka.Options{Brokers: []string{address}, TLS: t, Login: (*kafka.Login)(login), ClientID: "gpuwhisk-doctor", Log: silent()})
	if err != nil {
		return kafka.Survey{}, err
	}
	s, err := c.Survey(ctx)
	if id := r.Config.Identity.ID; err == nil && id != nil {
		own := fmt.Sprintf("%sinvoker%d", r.Config.Kafka.TopicPrefix, *id)
		if _, there := s.Topics[own]; there {
			// Who may not read a topic's settings looks at the rest.
			if kept, err := c.Retention(ctx, own); err == nil {
				s.Retention = map[string]time.Duration{own: kept.Time}
			}
		}
	}
	return s, err
}

func (r *real) couch(ctx context.Context) (couchdb.Survey, error) {
	d := r.Config.CouchDB
	if r.Config.RecordsElsewhere() {
		d.Activations = ""
	}
	return couchdb.Look(ctx, couchdb.Config{
		URL:      d.Protocol + "://" + net.JoinHostPort(d.Host, strconv.Itoa(d.Port)),
		Username: d.Username, Password: d.Password,
		Whisks: d.Entities, Subjects: d.Subjects, Activations: d.Activations,
	})
}

// records asks the store of records that is not CouchDB.
func (r *real) records(ctx context.Context) error {
	s, err := stores.Records(r.Config, records.Config{}, silent())
	if err != nil || s == nil {
		return err
	}
	return errors.Join(s.Probe(ctx), s.Close())
}

// bucket asks the bucket of code.
func (r *real) bucket(ctx context.Context) error {
	s, err := stores.Bucket(r.Config)
	if err != nil || s == nil {
		return err
	}
	defer s.Close()
	return s.Probe(ctx)
}

func (r *real) zooKeeper(ctx context.Context) (map[string]int, error) {
	return zookeeper.Mapping(ctx, r.Config.Identity.ZooKeeperHosts)
}

func (r *real) dockerOptions() docker.Options {
	o := docker.DefaultOptions()
	o.Host, o.CertDir = r.Config.Docker.Host, r.Config.Docker.CertDir
	o.Network = r.Config.Containers.Network
	o.Logger = silent()
	return o
}

func (r *real) docker(ctx context.Context) (docker.Survey, error) {
	d, err := docker.Look(r.dockerOptions())
	if err != nil {
		return docker.Survey{}, err
	}
	s, err := d.Survey(ctx)
	return s, errors.Join(err, d.Close())
}

func (r *real) image(ctx context.Context, reference string) (docker.Image, bool, error) {
	d, err := docker.Look(r.dockerOptions())
	if err != nil {
		return docker.Image{}, false, err
	}
	i, there, err := d.Image(ctx, reference)
	return i, there, errors.Join(err, d.Close())
}

// libc looks at an image's C library.
func (r *real) libc(ctx context.Context, reference string) (docker.Libc, error) {
	d, err := docker.Look(r.dockerOptions())
	if err != nil {
		return docker.Libc{}, err
	}
	l, err := d.Libc(ctx, reference)
	return l, errors.Join(err, d.Close())
}

// probeMemory is what a probed image may use, in MiB: OpenWhisk's default for
// an action.
const probeMemory = 256

// probe runs an image as the invoker would and sends /init without code. A
// proxy answers that something is missing; anything else answers 404, or not
// at all.
func (r *real) probe(ctx context.Context, reference string) (said string, err error) {
	o := r.dockerOptions()
	o.Prefix = "gpuwhisk-doctor"
	e, err := docker.New(ctx, o)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	tag := make([]byte, 4)
	_, _ = rand.Read(tag) // never fails
	name := o.Prefix + "_" + hex.EncodeToString(tag)
	// By name: a container that ended before it had an address is there, too.
	defer func() {
		bye, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTime)
		defer cancel()
		err = errors.Join(err, e.CleanUp(bye, name))
	}()
	h, err := e.Create(ctx, container.Spec{Name: name, Image: reference, MemoryMB: probeMemory, CPUShares: 256})
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() { // ends with the engine, which closes the channel
		for id := range e.Died() {
			if id == h.ID {
				cancel(errEnded)
			}
		}
	}()
	return talk(ctx, h.Addr)
}

// errEnded is a container that did not wait for /init.
var errEnded = errors.New("its program ended by itself")

// removeTime bounds the removal of a probed container.
const removeTime = 10 * time.Second

// talk waits for the proxy and says what it answered.
func talk(ctx context.Context, address string) (string, error) {
	const most = 64 << 10 // of an answer that is a line long
	c := proxy.New(address, 1)
	defer c.Close()
	left := 10 * time.Second
	if end, bounded := ctx.Deadline(); bounded {
		left = time.Until(end) / 10 * 9
	}
	x := c.Init(ctx, []byte(`{"value":{}}`), left, proxy.Limit{Max: most, Truncation: most})
	switch {
	case errors.Is(context.Cause(ctx), errEnded):
		return "", errEnded
	case x.Err != nil:
		return "", fmt.Errorf("nothing answers on port 8080 after %v: %w", time.Since(x.Start).Round(time.Millisecond), x.Err)
	case x.Status == 404 || x.Status == 405:
		return "", fmt.Errorf("it answers /init with status %d", x.Status)
	}
	return fmt.Sprintf("answers /init after %v", cmp.Or(time.Since(x.Start).Round(time.Millisecond), time.Millisecond)), nil
}
