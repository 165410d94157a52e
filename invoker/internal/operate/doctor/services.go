package doctor

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gpuwhisk/gpuwhisk/activation/couchdb"
	"github.com/gpuwhisk/gpuwhisk/activation/kafka"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/config"
)

func checkBrokers(s *snapshot) []Finding {
	if len(s.brokers) == 0 {
		return skip("set KAFKA_HOSTS to host:port of the brokers", "not configured")
	}
	with := "in plain text"
	if s.Config.Kafka.Encrypted() {
		with = "over TLS"
	}
	if login, err := s.Config.Kafka.Login(); err == nil && login != nil {
		with += fmt.Sprintf(", as user %s by %s", login.Username, login.Mechanism)
	}
	judge := fail
	if s.kafkaAnswers() {
		judge = warn // the other brokers work
	}
	return merged(ofEach(s.brokers, func(b broker) []Finding {
		if b.err != nil {
			return judge(s.brokerFix(b.err.Error()), "%s does not answer %s: %v", b.address, with, b.err)
		}
		return ok("%s", b.address)
	}), ", ", "", " answers "+with)
}

// brokerFixes lists the advice for errors that contain a text.
var brokerFixes = []struct {
	signs []string
	fix   string
}{
	{[]string{"x509", "certificate", "key store"}, "check the trust and key store (CONFIG_whisk_kafka_common_ssl*) against the broker's certificate"},
	{[]string{"first record does not look like a TLS handshake"}, "this port speaks plain text: use the broker's TLS port, or CONFIG_whisk_kafka_common_securityProtocol=PLAINTEXT"},
	{[]string{"log in to broker", "sasl-"}, "check CONFIG_whisk_kafka_common_saslJaasConfig and _saslMechanism against the broker's users, and _securityProtocol against its listener"},
}

func (s *snapshot) brokerFix(text string) string {
	has := func(sign string) bool { return strings.Contains(text, sign) }
	for _, known := range brokerFixes {
		if slices.ContainsFunc(known.signs, has) {
			return known.fix
		}
	}
	if !s.Config.Kafka.Encrypted() && (has("EOF") || has("reset")) {
		return "the port may speak TLS, or require a login: set CONFIG_whisk_kafka_common_securityProtocol=SSL and the stores, or SASL_PLAINTEXT or SASL_SSL and the login"
	}
	return "check KAFKA_HOSTS, the broker, and the firewall in between"
}

// checkAdvertised: clients connect to the addresses that brokers advertise.
func checkAdvertised(s *snapshot) []Finding {
	var addresses []string
	for _, b := range s.brokers {
		addresses = append(addresses, b.Brokers...)
	}
	slices.Sort(addresses)
	addresses = slices.Compact(addresses)
	bad := slices.Concat(each(addresses, func(at string) []string {
		if err := s.Reach(s.ctx, at); err != nil {
			return []string{fmt.Sprintf("%s (%v)", at, err)}
		}
		return nil
	})...)
	switch {
	case len(addresses) == 0:
		return nil
	case len(bad) > 0:
		return fail("set advertised.listeners of the brokers to addresses that this host can reach",
			"the brokers advertise addresses that cannot be reached from here: %s", strings.Join(bad, ", "))
	}
	return ok("the brokers' own addresses can be reached: %s", strings.Join(addresses, ", "))
}

// checkTopics: the controllers create all topics except the invoker's own. Topics of the
// scheduler exist only if controllers in scheduler mode ran, which an invoker in classic
// mode cannot serve.
func checkTopics(s *snapshot) []Finding {
	d, prefix := s.brokers[slices.IndexFunc(s.brokers, broker.answers)].ClusterInfo, s.Config.Kafka.TopicPrefix
	var completed, scheduler []string
	for _, name := range slices.Sorted(maps.Keys(d.Topics)) {
		own, ours := strings.CutPrefix(name, prefix)
		switch {
		case !ours:
		case strings.HasPrefix(own, "completed"):
			completed = append(completed, name)
		case strings.HasPrefix(own, "creationAck"), strings.HasPrefix(own, "scheduler"):
			scheduler = append(scheduler, name)
		}
	}
	all := ok("topics of controllers exist: %shealth, %s", prefix, strings.Join(completed, ", "))
	if _, there := d.Topics[prefix+"health"]; !there || len(completed) == 0 {
		all = warn("start a controller first; check CONFIG_whisk_kafka_topics_prefix if one runs",
			"no topic %shealth or %[1]scompleted*: no controller of this deployment has ever run", prefix)
	}
	if len(scheduler) > 0 && !s.Config.Scheduler.Enabled {
		all = append(all, warn(modeFix, "topics of the scheduler mode exist (%s): a controller in scheduler mode sends this invoker no work", strings.Join(scheduler, ", "))...)
	}
	return slices.Concat(all, s.ownTopic(d), s.forwardTopics(d))
}

// forwardTopics checks the topics to which a host without a GPU forwards GPU activations.
func (s *snapshot) forwardTopics(d kafka.ClusterInfo) []Finding {
	names := s.Config.GPU.ForwardTo
	if len(names) == 0 {
		return nil
	}
	if s.Config.Scheduler.Enabled {
		return warn("unset it, and annotate GPU functions with invoker-resources [\"gpu\"]",
			"CONFIG_whisk_gpu_forwardTo is %s, which has no effect in scheduler mode: a host without a GPU refuses GPU functions, and the scheduler tries another host", strings.Join(names, ","))
	}
	var missing []string
	for _, name := range names {
		if _, there := d.Topics[s.Config.Kafka.TopicPrefix+name]; !there {
			missing = append(missing, s.Config.Kafka.TopicPrefix+name)
		}
	}
	if len(missing) > 0 {
		return fail("start the invokers that own the topics, or correct CONFIG_whisk_gpu_forwardTo",
			"GPU activations cannot be forwarded to %s: no such topic", strings.Join(missing, ", "))
	}
	return ok("GPU activations can be forwarded to %s", strings.Join(names, ", "))
}

func (s *snapshot) ownTopic(d kafka.ClusterInfo) []Finding {
	if s.Config.Identity.ID == nil {
		return nil
	}
	name, longest := s.ownTopicName(), s.Config.Limits.TimeMax
	n, there := d.Topics[name]
	retention, known := d.Retention[name]
	switch {
	case !there:
		return ok("%s does not exist yet; the invoker creates it", name)
	case n > 1:
		return fail("delete the topic while nothing runs; the invoker creates it with one partition", "%s has %d partitions, but only the first is read", name, n)
	case !known:
		return ok("%s exists", name)
	case retention < longest:
		return warn("raise the topic's retention.ms (kafka-configs.sh --alter --entity-type topics --entity-name "+name+
			"), and CONFIG_whisk_kafka_topics_invoker_retentionMs for the next time that it is created",
			"%s keeps messages for %v, less than the longest time limit of an action (%v): an activation that waits longer is lost", name, retention, longest)
	}
	return ok("%s exists and keeps messages for %v", name, retention)
}

func checkCouch(s *snapshot) []Finding {
	c := s.Config.CouchDB
	if c.Host == "" {
		return skip("set the CONFIG_whisk_couchdb_* variables of the deployment", "not configured")
	}
	address := fmt.Sprintf("%s://%s:%d", c.Protocol, c.Host, c.Port)
	switch err := s.couchErr; {
	case errors.Is(err, couchdb.ErrUnauthorized) || errors.Is(err, couchdb.ErrForbidden):
		return fail("check CONFIG_whisk_couchdb_username and _password", "%s: %v", address, err)
	case err != nil:
		return fail("check CONFIG_whisk_couchdb_protocol, _host and _port, the server, and the firewall in between", "%s: %v", address, err)
	}
	return ok("%s at %s knows user %s", s.couch.Server, address, c.Username)
}

func checkDatabases(s *snapshot) []Finding {
	c := s.couch
	all := slices.Concat(judgeDatabase(c.Whisks, "WhiskEntity"), judgeDatabase(c.Subjects, "WhiskAuth"), judgeDatabase(c.Activations, "WhiskActivation"))
	switch err := c.Activations.Write; {
	case c.Activations.Name == "": // records go to another store
	case err != nil:
		return append(all, fail("make the user a member with the right to write there (Ansible: initdb.yml and wipe.yml grant it)",
			"records cannot be written to %s: %v", c.Activations.Name, err)...)
	case err == nil && c.Activations.Read == nil:
		return append(all, ok("records may be written to %s", c.Activations.Name)...)
	}
	return all
}

func judgeDatabase(d couchdb.Database, key string) []Finding {
	switch {
	case d.Name == "":
		return nil // records go to another store
	case d.Read == nil:
		return ok("%s, %d documents", d.Name, d.Documents)
	case errors.Is(d.Read, couchdb.ErrNoDatabase):
		return fail("check CONFIG_whisk_couchdb_databases_"+key+", or create it (Ansible: initdb.yml)", "database %s does not exist", d.Name)
	case errors.Is(d.Read, couchdb.ErrForbidden), errors.Is(d.Read, couchdb.ErrUnauthorized):
		return fail("make the user a member of the database", "database %s may not be read: %v", d.Name, d.Read)
	}
	return fail("see the server's log", "database %s: %v", d.Name, d.Read)
}

func checkViews(s *snapshot) []Finding {
	var lacking []string
	readable := false
	for _, d := range []couchdb.Database{s.couch.Whisks, s.couch.Subjects, s.couch.Activations} {
		readable = readable || d.Read == nil
		for _, design := range d.Lacking {
			lacking = append(lacking, d.Name+"/"+design)
		}
	}
	switch {
	case len(lacking) > 0:
		return warn("create them (Ansible: initdb.yml, recreateViews.yml)",
			"design documents are missing: %s; they are needed for lists and for blocking namespaces", strings.Join(lacking, ", "))
	case !readable:
		return nil
	}
	return ok("all design documents of the deployment exist")
}

// checkBucket examines the S3 bucket of actions' code.
func checkBucket(s *snapshot) []Finding {
	if err := s.Bucket(s.ctx); err != nil {
		return fail("check CONFIG_whisk_s3_bucket and CONFIG_whisk_s3_pekkoConnectors_*, and that the user may read and list the bucket",
			"no code can be read from S3: %v", err)
	}
	return ok("bucket %s can be read", s.Config.S3.Bucket)
}

// recordFixes names the settings of each record store.
var recordFixes = map[string]string{
	config.StoreElasticsearch: "check CONFIG_whisk_activationStore_elasticsearch_protocol, _hosts, _username and _password",
	config.StoreCouchbase:     "check CONFIG_whisk_gpu_couchbase_connection, _username, _password, _bucket, _scope and _collection, and that the user may write there",
}

// checkRecords examines the record store, if it is not CouchDB.
func checkRecords(s *snapshot) []Finding {
	store := s.Config.Records.Store
	if err := s.Records(s.ctx); err != nil {
		return fail(recordFixes[store], "no records can be written to %s: %v", store, err)
	}
	return ok("%s takes records", store)
}

func checkZooKeeper(s *snapshot) []Finding {
	id := s.Config.Identity
	switch {
	case id.ID != nil:
		return ok("not needed: --id %d is given", *id.ID)
	case id.UniqueName == "":
		return skip("give this command the invoker's own arguments", "not configured: neither --id nor --uniqueName is given")
	case id.ZooKeeperHosts == "":
		return fail("set ZOOKEEPER_HOSTS, or give --id", "--uniqueName without --id needs ZooKeeper")
	}
	ids, err := s.ZooKeeper(s.ctx)
	if err != nil {
		return fail("check ZOOKEEPER_HOSTS and the server, or give --id", "%s: %v", id.ZooKeeperHosts, err)
	}
	if n, known := ids[id.UniqueName]; known {
		return ok("%s has the number %d", id.UniqueName, n)
	}
	return ok("%s will get the next number; %d invoker(s) have one", id.UniqueName, len(ids))
}
