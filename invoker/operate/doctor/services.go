package doctor

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gpuwhisk/gpuwhisk/activation/couchdb"
	"github.com/gpuwhisk/gpuwhisk/activation/kafka"
	"github.com/gpuwhisk/gpuwhisk/invoker/config"
)

func checkBrokers(f *Snapshot) []Finding {
	hosts := f.Config.Kafka.Hosts
	if len(hosts) == 0 {
		return skip("not configured", "set KAFKA_HOSTS to host:port of the brokers")
	}
	with := "in plain text"
	if f.Config.Kafka.Encrypted() {
		with = "over TLS"
	}
	if login, err := f.Config.Kafka.Login(); err == nil && login != nil {
		with += fmt.Sprintf(", as user %s by %s", login.Username, login.Mechanism)
	}
	var good []string
	var bad []Finding
	for _, h := range hosts {
		if err := f.brokers[h].err; err != nil {
			bad = append(bad, fail(fmt.Sprintf("%s does not answer %s: %v", h, with, err), brokerFix(f, err))...)
		} else {
			good = append(good, h)
		}
	}
	if len(good) == 0 {
		return bad
	}
	for i := range bad {
		bad[i].Status = Warn // the others serve
	}
	return append(bad, ok(strings.Join(good, ", ")+" answers "+with)...)
}

func brokerFix(f *Snapshot, err error) string {
	text := err.Error()
	switch {
	case strings.Contains(text, "x509"), strings.Contains(text, "certificate"), strings.Contains(text, "key store"):
		return "check the trust and key store (CONFIG_whisk_kafka_common_ssl*) against the broker's certificate"
	case strings.Contains(text, "first record does not look like a TLS handshake"):
		return "this port speaks plain text: use the broker's TLS port, or CONFIG_whisk_kafka_common_securityProtocol=PLAINTEXT"
	case strings.Contains(text, "log in to broker"), strings.Contains(text, "sasl-"):
		return "check CONFIG_whisk_kafka_common_saslJaasConfig and _saslMechanism against the broker's users, and _securityProtocol against its listener"
	case !f.Config.Kafka.Encrypted() && (strings.Contains(text, "EOF") || strings.Contains(text, "reset")):
		return "the port may speak TLS, or require a login: set CONFIG_whisk_kafka_common_securityProtocol=SSL and the stores, or SASL_PLAINTEXT or SASL_SSL and the login"
	}
	return "check KAFKA_HOSTS, the broker, and the firewall between"
}

func checkAdvertised(f *Snapshot) []Finding {
	var bad []string
	for _, at := range slices.Sorted(maps.Keys(f.advertised)) {
		if err := f.advertised[at]; err != nil {
			bad = append(bad, fmt.Sprintf("%s (%v)", at, err))
		}
	}
	switch {
	case len(f.advertised) == 0:
		return nil
	case len(bad) > 0:
		return fail("the brokers advertise addresses that cannot be reached from here: "+strings.Join(bad, ", "),
			"set advertised.listeners of the brokers to addresses that this host can reach")
	}
	return ok("the brokers' own addresses can be reached: " + strings.Join(slices.Sorted(maps.Keys(f.advertised)), ", "))
}

// checkTopics: the controllers make all topics but the invoker's own. Those of
// the scheduler exist only where controllers ran that an invoker of the
// classic mode cannot serve.
func checkTopics(f *Snapshot) []Finding {
	d, answered := f.description()
	if !answered {
		return nil
	}
	topics := d.Topics
	prefix := f.Config.Kafka.TopicPrefix
	var completed, scheduler []string
	for name := range topics {
		own, ours := strings.CutPrefix(name, prefix)
		switch {
		case !ours:
		case strings.HasPrefix(own, "completed"):
			completed = append(completed, name)
		case strings.HasPrefix(own, "creationAck"), strings.HasPrefix(own, "scheduler"):
			scheduler = append(scheduler, name)
		}
	}
	slices.Sort(completed)
	slices.Sort(scheduler)
	var all []Finding
	if _, there := topics[prefix+"health"]; !there || len(completed) == 0 {
		all = append(all, warn(fmt.Sprintf("no topic %shealth or %scompleted*: no controller of this deployment ever ran here", prefix, prefix),
			"start a controller first; check CONFIG_whisk_kafka_topics_prefix if one runs")...)
	} else {
		all = append(all, ok("controllers were here: "+prefix+"health, "+strings.Join(completed, ", "))...)
	}
	if len(scheduler) > 0 && !f.Config.Scheduler.Enabled {
		all = append(all, warn("topics of the scheduler mode exist ("+strings.Join(scheduler, ", ")+"): a controller that runs in it sends this invoker nothing", modeFix)...)
	}
	all = append(all, f.ownTopic(d)...)
	return append(all, f.forwardTopic(topics)...)
}

// forwardTopic: GPU activations of a host without a GPU go there, and an invoker
// must take them from it.
func (f *Snapshot) forwardTopic(topics map[string]int) []Finding {
	name := f.Config.GPU.ForwardTopic
	if name == "" {
		return nil
	}
	if f.Config.Scheduler.Enabled {
		return warn("CONFIG_whisk_gpu_forwardTopic is "+name+", which has no effect in scheduler mode: a host without a GPU refuses GPU functions, and their scheduler tries another",
			"unset it, and annotate GPU functions with invoker-resources [\"gpu\"]")
	}
	name = f.Config.Kafka.TopicPrefix + name
	if _, there := topics[name]; !there {
		return fail(name+", to which GPU activations are forwarded, does not exist",
			"start the invoker whose topic it is, or correct CONFIG_whisk_gpu_forwardTopic")
	}
	return ok(name + " takes GPU activations that are forwarded")
}

// description is that of the first broker that answers.
func (f *Snapshot) description() (kafka.Description, bool) {
	for _, host := range f.Config.Kafka.Hosts {
		if a := f.brokers[host]; a.err == nil {
			return a.value, true
		}
	}
	return kafka.Description{}, false
}

func (f *Snapshot) ownTopic(d kafka.Description) []Finding {
	id := f.Config.Identity.ID
	if id == nil {
		return nil
	}
	name := fmt.Sprintf("%sinvoker%d", f.Config.Kafka.TopicPrefix, *id)
	switch n, there := d.Topics[name]; {
	case !there:
		return ok(name + " does not exist yet; the invoker makes it")
	case n > 1:
		return fail(fmt.Sprintf("%s has %d partitions, only the first is read", name, n), "delete the topic while nothing runs; the invoker makes it with one")
	}
	retention, known := d.Retention[name]
	longest := f.Config.Limits.TimeMax
	switch {
	case !known:
		return ok(name + " exists")
	case retention < longest:
		return warn(fmt.Sprintf("%s keeps messages for %v, less than the longest action may run (%v): one that waits for so long is lost", name, retention, longest),
			"raise the topic's retention.ms (kafka-configs.sh --alter --entity-type topics --entity-name "+name+
				"), and CONFIG_whisk_kafka_topics_invoker_retentionMs for the next time that it is made")
	}
	return ok(fmt.Sprintf("%s exists and keeps messages for %v", name, retention))
}

func (f *Snapshot) couchAddress() string {
	c := f.Config.CouchDB
	return fmt.Sprintf("%s://%s:%d", c.Protocol, c.Host, c.Port)
}

func checkCouch(f *Snapshot) []Finding {
	if f.Config.CouchDB.Host == "" {
		return skip("not configured", "set the CONFIG_whisk_couchdb_* variables of the deployment")
	}
	if err := f.couch.err; err != nil {
		fix := "check CONFIG_whisk_couchdb_protocol, _host and _port, the server, and the firewall between"
		if errors.Is(err, couchdb.ErrUnauthorized) || errors.Is(err, couchdb.ErrForbidden) {
			fix = "check CONFIG_whisk_couchdb_username and _password"
		}
		return fail(f.couchAddress()+": "+err.Error(), fix)
	}
	return ok(f.couch.value.Server + " at " + f.couchAddress() + " knows user " + f.Config.CouchDB.Username)
}

func checkDatabases(f *Snapshot) []Finding {
	s := f.couch.value
	var all []Finding
	for _, d := range []struct {
		couchdb.Database
		key string
	}{{s.Whisks, "WhiskEntity"}, {s.Subjects, "WhiskAuth"}, {s.Activations, "WhiskActivation"}} {
		if d.Name == "" {
			continue // records go elsewhere
		}
		all = append(all, judgeDatabase(d.Database, "CONFIG_whisk_couchdb_databases_"+d.key)...)
	}
	if f.Config.RecordsOutsideCouchDB() {
		return all
	}
	if w := s.Activations.Write; w != nil && !f.Config.Records.Discard {
		all = append(all, fail("records cannot be written to "+s.Activations.Name+": "+w.Error(),
			"make the user a member with the right to write there (Ansible: initdb.yml and wipe.yml grant it)")...)
	} else if w == nil && s.Activations.Read == nil {
		all = append(all, ok("records may be written to "+s.Activations.Name)...)
	}
	return all
}

func judgeDatabase(d couchdb.Database, key string) []Finding {
	switch {
	case d.Read == nil:
		return ok(fmt.Sprintf("%s, %d documents", d.Name, d.Documents))
	case errors.Is(d.Read, couchdb.ErrNotFound):
		return fail("database "+d.Name+" does not exist", "check "+key+", or create it (Ansible: initdb.yml)")
	case errors.Is(d.Read, couchdb.ErrForbidden), errors.Is(d.Read, couchdb.ErrUnauthorized):
		return fail("database "+d.Name+" may not be read: "+d.Read.Error(), "make the user a member of the database")
	}
	return fail("database "+d.Name+": "+d.Read.Error(), "see the server's log")
}

func checkViews(f *Snapshot) []Finding {
	var lacking []string
	readable := false
	for _, d := range []couchdb.Database{f.couch.value.Whisks, f.couch.value.Subjects, f.couch.value.Activations} {
		readable = readable || d.Read == nil
		for _, design := range d.Lacking {
			lacking = append(lacking, d.Name+"/"+design)
		}
	}
	switch {
	case len(lacking) > 0:
		return warn("design documents are missing: "+strings.Join(lacking, ", ")+"; lists and the blocking of namespaces need them",
			"create them (Ansible: initdb.yml, recreateViews.yml)")
	case !readable:
		return nil
	}
	return ok("all design documents of the deployment are there")
}

// checkBucket examines the bucket where code is kept in S3.
func checkBucket(f *Snapshot) []Finding {
	d := f.Config.S3
	if !d.Enabled {
		return nil
	}
	if f.bucket != nil {
		return fail("no code can be read from S3: "+f.bucket.Error(),
			"check CONFIG_whisk_s3_bucket and CONFIG_whisk_s3_pekkoConnectors_*, and that the user may read and list the bucket")
	}
	return ok("bucket " + d.Bucket + " can be read")
}

// checkRecords examines the store of records where that is not CouchDB.
func checkRecords(f *Snapshot) []Finding {
	if !f.Config.RecordsOutsideCouchDB() {
		return nil
	}
	store := f.Config.Records.Store
	if f.records != nil {
		return fail("no records can be written to "+store+": "+f.records.Error(), recordFixes[store])
	}
	return ok(store + " takes records")
}

// recordFixes names for each store where its settings are.
var recordFixes = map[string]string{
	config.StoreElasticsearch: "check CONFIG_whisk_activationStore_elasticsearch_protocol, _hosts, _username and _password",
	config.StoreCouchbase:     "check CONFIG_whisk_gpu_couchbase_connection, _username, _password, _bucket, _scope and _collection, and that the user may write there",
}

func checkZooKeeper(f *Snapshot) []Finding {
	id := f.Config.Identity
	switch {
	case id.ID != nil:
		return ok(fmt.Sprintf("not needed: --id %d is given", *id.ID))
	case id.UniqueName == "":
		return skip("not configured: neither --id nor --uniqueName is given", "give this command the invoker's own arguments")
	case id.ZooKeeperHosts == "":
		return fail("--uniqueName without --id needs ZooKeeper", "set ZOOKEEPER_HOSTS, or give --id")
	case f.zoo.err != nil:
		return fail(id.ZooKeeperHosts+": "+f.zoo.err.Error(), "check ZOOKEEPER_HOSTS and the server, or give --id")
	}
	if n, known := f.zoo.value[id.UniqueName]; known {
		return ok(fmt.Sprintf("%s has the number %d", id.UniqueName, n))
	}
	return ok(fmt.Sprintf("%s will get the next number; %d invoker(s) have one", id.UniqueName, len(f.zoo.value)))
}
