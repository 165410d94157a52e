package config

import (
	"io"
	"strings"
	"testing"
)

// No input makes Load panic or repeat a password, and what it accepts it can
// print.
func FuzzLoad(f *testing.F) {
	f.Add("CONFIG_whisk_containerPool_userMemory=2048m", "--id\n0", "port=1")
	f.Add("CONFIG_whisk_containerFactory_containerArgs_dnsServers_0=1.1.1.1", "--uniqueName\nx", "")
	f.Add("OPENWHISK_CONFIG=include classpath(\"a\")\nwhisk.gpu { tokens = 3 }", "--id=1", "#\n=\n")
	f.Add("INVOKER_OPTS=-Dwhisk.couchdb.password='a b' -Dwhisk.kafka.topics.invoker.retention-ms=1", "--id\n0", "")
	f.Add("CONFIG_whisk_gpu_weights_0=a=1", "", "kafka.hosts=a:1,b:2")
	f.Fuzz(func(t *testing.T, one, args, properties string) {
		in := Input{Environ: full(one), Properties: properties, PropertiesPath: "whisk.properties"}
		if args != "" {
			in.Args = strings.Split(args, "\n")
		}
		c, err := Load(in)
		if err := c.Print(io.Discard); err != nil {
			t.Fatal(err)
		}
		if err != nil && strings.Contains(err.Error(), "very-secret-1") {
			t.Fatalf("the error repeats a password: %v", err)
		}
		if err == nil && (len(c.Kafka.Hosts) == 0 || c.MaxPeek() < 0 || c.Kafka.TopicConfig["max.message.bytes"] == "") {
			t.Fatalf("accepted %+v", c)
		}
	})
}
