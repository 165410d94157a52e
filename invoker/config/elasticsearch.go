package config

import (
	"strings"
	"time"
)

// Elasticsearch is where records go that do not go to CouchDB, in the form and
// under the keys that OpenWhisk has for it.
type Elasticsearch struct {
	Protocol           string // "http" or "https"
	Hosts              []string
	Index              string
	Username, Password string
	KeepAlive          time.Duration
	// Certificate is a PEM file, empty for the system's authorities.
	Certificate string
}

func elasticsearchKeys(c *Config) []*Key {
	d := &c.Elasticsearch
	const under = "whisk.activation-store.elasticsearch."
	return []*Key{
		{Name: under + "protocol", Default: "http", value: choice(&d.Protocol, "http", "https"), Doc: "how Elasticsearch is reached"},
		{Name: under + "hosts", value: commaList(&d.Hosts),
			Doc: "servers of Elasticsearch, each host:port; needed where records go there"},
		{Name: under + "index-pattern", Default: "openwhisk-%s", value: text(&d.Index),
			Doc: "name of the index of a namespace, which stands for %s in lower case; without %s all share one index"},
		{Name: under + "username", value: text(&d.Username), Doc: "user at Elasticsearch; empty means without a login"},
		{Name: under + "password", Secret: true, value: exact(&d.Password), Doc: "password at Elasticsearch"},
		{Name: under + "keep-alive", Default: "13 minutes", value: duration(&d.KeepAlive), Doc: "how long an idle connection stays open"},
		{Name: "whisk.gpu.elasticsearch.certificate", value: text(&d.Certificate),
			Doc: "PEM file of the authorities that sign Elasticsearch's certificates; empty means the system's"},
	}
}

// check names what is wrong with an Elasticsearch that records shall go to.
func (d Elasticsearch) check(demand func(ok bool, format string, args ...any)) {
	demand(len(d.Hosts) > 0, "records go to Elasticsearch, which needs whisk.activation-store.elasticsearch.hosts")
	for _, host := range d.Hosts {
		demand(!strings.ContainsAny(host, "/@ "), "whisk.activation-store.elasticsearch.hosts names a host that is not host:port "+
			"(the protocol, the user and the password have keys of their own)")
	}
	demand((d.Username == "") == (d.Password == ""),
		"whisk.activation-store.elasticsearch.username and .password belong together: give both or neither")
}
