package config

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

const scramEntry = scramModule + ` required username="invoker" password="very-secret-9";`

func TestJAAS(t *testing.T) {
	const entry = plainModule + " required "
	for text, want := range map[string]string{ // user and password, separated by a space
		entry + `username="a" password="b";`:                                         "a b",
		entry + "username='a'\n\tpassword='b' ;  ":                                   "a b",
		entry + `username=a password=b-1_2.3$ß;`:                                     "a b-1_2.3$ß",
		"/* one\ntwo */ " + entry + "username=a // rest\n password=b;//":             "a b",
		entry + `password="b" "username"="a" serviceName="x";`:                       "a b",
		entry + `username = "a" password = "b;=\"'\\//";`:                            `a b;="'\//`,
		entry + `username="a" password="\101\60\1012\u\t\400\377";`:                  "a A0A2u\t 0ÿ",
		entry + `username="a" password="x" password="b";`:                            "a b",
		strings.Replace(entry, "required", "OPTIONAL", 1) + `username=a password=b;`: "a b",
		scramModule + ` required username=a password="x" tokenauth=false;`:           "a x",
	} {
		k := Kafka{SecurityProtocol: "SASL_SSL", SASL: KafkaSASL{"PLAIN", text}}
		l, err := k.Login()
		check.NoError(t, err, "%s", text)
		check.Equal(t, l.Username+" "+l.Password, want, "%s", text)
		check.Equal(t, l.Mechanism, "PLAIN", "%s", text)
	}
}

func TestJAASRefuses(t *testing.T) {
	const entry = scramModule + " required "
	for text, want := range map[string]string{
		"s3cret":    "it ends where there should be required",
		" ; ":       "at character 2 there should be the class",
		`"";`:       "should be required",
		"// none":   "it ends where there should be the class",
		"/* s3cret": "the comment at character 1 is not closed",
		scramModule + ` username="a" password="s3cret";`:           `"required" does not follow`,
		`com.sun.security.auth.module.Krb5LoginModule required;`:   "login module is neither",
		plainModule + ` required username="a" password="s3cret";`:  "does not serve whisk.kafka.common.sasl-mechanism SCRAM-SHA-512",
		entry + `username="a" password="s3cret"`:                   "it ends where there should be the name of an option, or a semicolon",
		entry + `username="a" password="s3cret;`:                   "the quote at character 88 is not closed",
		entry + "username=\"a\" password=\"s3\ncret\";":            "is not closed on its line",
		entry + `username="a" password=;`:                          "there should be a value",
		entry + `username="a" password "s3cret";`:                  "there should be = and a value",
		entry + `username="a" password=1s3cret;`:                   "character 88 is not the beginning of a word: put the text in double quotes",
		entry + `username="a" password=s3cret+s3cret;`:             "is not the beginning of a word",
		entry + `username="a" password=s3cret s3cret;`:             "there should be = and a value",
		entry + `username="a" password=s3cret=s3cret;`:             "the name of an option",
		entry + `username="a" password="s3cret"; ` + entry + `;`:   "one login module",
		entry + `password="s3cret";`:                               "it has no username",
		entry + `username="a" password="";`:                        "it has no password",
		entry + `username="a" password="s3cret" tokenauth="true";`: "tokenauth is not supported",
	} {
		err := refused(t, want, "CONFIG_whisk_kafka_common_securityProtocol=SASL_PLAINTEXT",
			"CONFIG_whisk_kafka_common_saslMechanism=scram-sha-512", "CONFIG_whisk_kafka_common_saslJaasConfig="+text)
		if err == nil {
			continue
		}
		check.Contains(t, err.Error(), "whisk.kafka.common.sasl-jaas-config", "%s", text)
		check.Lacks(t, err.Error(), "s3", "%s", text)
	}
}

func TestLoginAtTheBrokers(t *testing.T) {
	c := loaded(t, "CONFIG_whisk_kafka_common_securityProtocol=SASL_SSL", "CONFIG_whisk_kafka_common_sslTruststoreLocation=/t",
		"CONFIG_whisk_kafka_common_saslMechanism=SCRAM-SHA-256", "CONFIG_whisk_kafka_common_saslJaasConfig="+scramEntry)
	l, err := c.Kafka.Login()
	check.NoError(t, err)
	check.Equal(t, *l, Login{"SCRAM-SHA-256", "invoker", "very-secret-9"})
	check.That(t, c.Kafka.Encrypted())
	// Without SASL, the keys of a login are not read.
	c = loaded(t, "CONFIG_whisk_kafka_common_saslJaasConfig=nonsense")
	l, err = c.Kafka.Login()
	check.NoError(t, err)
	check.Equal(t, l, nil)
	check.That(t, !c.Kafka.Encrypted())
	// The trust store of the system suffices if host names are checked.
	loaded(t, "CONFIG_whisk_kafka_common_securityProtocol=SASL_SSL", "CONFIG_whisk_kafka_common_sslEndpointIdentificationAlgorithm=https",
		"CONFIG_whisk_kafka_common_saslMechanism=PLAIN", "CONFIG_whisk_kafka_common_saslJaasConfig="+scramEntry)
}

// FuzzJAAS: no input makes the parser panic or accept an incomplete login, no error
// repeats a part of the input, and an entry whose values are all quoted keeps its
// values.
func FuzzJAAS(f *testing.F) {
	f.Add(scramEntry, "a", "b")
	f.Add(plainModule+` required username=a password='\101\377' /* c */; // d`, `"`, "\\\n")
	f.Add("a optional b=c", "\x00", "ß")
	f.Fuzz(func(t *testing.T, text, user, password string) {
		const hidden = "xyzzy-Quux"
		for _, s := range []string{text, text + hidden, strings.ReplaceAll(text, "a", hidden)} {
			k := Kafka{SecurityProtocol: "SASL_SSL", SASL: KafkaSASL{"PLAIN", s}}
			l, err := k.Login()
			if err != nil {
				check.Lacks(t, err.Error(), hidden, "%q", s)
				continue
			}
			check.That(t, l.Username != "", "%q", s)
			check.That(t, l.Password != "", "%q", s)
		}
		if user == "" || password == "" || !utf8.ValidString(user+password) {
			return
		}
		quote := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\r", `\r`)
		k := Kafka{SecurityProtocol: "SASL_SSL", SASL: KafkaSASL{"PLAIN",
			plainModule + ` required username="` + quote.Replace(user) + `" password="` + quote.Replace(password) + `";`}}
		l, err := k.Login()
		check.NoError(t, err, "%q, %q", user, password)
		check.Equal(t, l.Username, user)
		check.Equal(t, l.Password, password)
	})
}
