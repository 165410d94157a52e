package config

import (
	"io"
	"strings"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// FuzzLoad: no input makes Load panic or repeat a password, and an accepted
// configuration can be printed.
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
		check.NoError(t, c.Print(io.Discard))
		if err != nil {
			check.Lacks(t, err.Error(), "very-secret-1")
			return
		}
		check.That(t, len(c.Kafka.Hosts) > 0, "accepted")
		check.AtLeast(t, c.MaxPeek(), 0, "accepted")
		check.That(t, c.Kafka.TopicConfig["max.message.bytes"] != "", "accepted")
	})
}
