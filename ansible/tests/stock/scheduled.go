package main

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/activation/etcd"
	"github.com/gpuwhisk/gpuwhisk/activation/fetch"
	"github.com/gpuwhisk/gpuwhisk/invoker/lib/retry"
)

// idle is how long a container without activations stays.
const idle = 10 * time.Second

// scheduled is the stand-in in OpenWhisk's scheduler mode. It reports its health in
// etcd. For each creation it runs a container that has a key and fetches activations.
// When it is stopped, its running work is lost, and its keys remain until its lease
// expires.
type scheduled struct {
	*stock
	cluster  activation.Cluster
	registry *etcd.Client
	fetcher  *fetch.Client
}

// schedule starts the scheduler mode. It returns the function that handles the messages
// of the topic.
func (s *stock) schedule() func(value []byte) {
	x := &scheduled{stock: s, cluster: activation.Cluster(os.Getenv("CONFIG_whisk_cluster_name")), fetcher: fetch.New(fetch.Config{Log: slog.Default()})}
	var err error
	x.registry, err = etcd.New(etcd.Config{
		Hosts: strings.Split(os.Getenv("CONFIG_whisk_etcd_hosts"), ","), TTL: 10 * time.Second, Cluster: x.cluster, Instance: s.self, Log: slog.Default(),
	})
	if err != nil {
		log.Fatal(err)
	}
	err = retry.Do(context.Background(), retry.Default(), func() error {
		err := x.writeHealthAction()
		if err != nil {
			log.Print("the action by which it tests itself: ", err)
		}
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	s.switched = x.report
	x.report()
	return x.take
}

func (x *scheduled) report() {
	h := activation.Health{Status: activation.Up, FreeMB: 2048, Tags: []string{}, DedicatedNamespaces: []string{}}
	if !x.enabled.Load() {
		h.Status = activation.Down
	}
	if err := x.registry.Report(context.Background(), h); err != nil {
		log.Print("report the health: ", err)
	}
}

// writeHealthAction writes the action with which an invoker tests itself to the
// database, as OpenWhisk's invoker does.
func (x *scheduled) writeHealthAction() error {
	name := fmt.Sprintf("invokerHealthTestAction%d", x.self.ID)
	doc := fmt.Sprintf(`{"_id":"whisk.system/%s","entityType":"action","name":%q,"namespace":"whisk.system","version":"0.0.1","publish":false,
		"parameters":[],"annotations":[],"limits":{"timeout":60000,"memory":128,"logs":0,"concurrency":1},"updated":1717990000000,
		"exec":{"kind":"nodejs:20","binary":false,"code":"function main() { return {by: 'probe'} }"}}`, name, name)
	return write(http.MethodPut, databaseKey("databases_WhiskEntity")+"/"+url.PathEscape("whisk.system/"+name), []byte(doc))
}

// take executes an order.
func (x *scheduled) take(value []byte) {
	c, _, err := activation.DecodeContainerMessage(value)
	if err != nil || c == nil || c.WarmUp() {
		return
	}
	ack := activation.ContainerCreationAck{Creation: c, Instance: x.self}
	topic := activation.CreationAckTopic(c.Scheduler)
	if !x.enabled.Load() {
		ack.Error, ack.Reason = activation.CreationUnknown, "disabled"
		x.send(topic, ack.Encode())
		return
	}
	x.containers.Add(1)
	defer x.containers.Add(-1)
	ctx := context.Background()
	key := x.cluster.Existing(c.Queue, x.self, string(c.ID))
	if err := x.registry.Put(ctx, key); err != nil {
		log.Print(key, ": ", err)
	}
	x.send(topic, ack.Encode())
	x.serve(ctx, c)
	if err := x.registry.Delete(ctx, key); err != nil {
		log.Print(key, ": ", err)
	}
	_, _ = x.fetcher.Leave(ctx, c.Endpoint, c.Queue, string(c.ID))
}

// serve runs the activations that a container fetches, until it has been idle or must
// end.
func (x *scheduled) serve(ctx context.Context, c *activation.ContainerCreation) {
	for last := time.Now(); x.enabled.Load() && time.Since(last) < idle; {
		a, err := x.fetcher.Fetch(ctx, c.Endpoint, activation.FetchRequest{Queue: c.Queue, Container: string(c.ID)})
		switch {
		case err != nil:
			log.Print("fetch: ", err)
			return
		case a.Kind == activation.Fetched:
			x.run(a.JSON())
			last = time.Now()
		case a.Kind != activation.NoActivation:
			return
		}
	}
}
