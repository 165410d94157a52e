package kafka

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"testing"
)

// secret stands for what must never reach a log.
const secret = "123zO3xZCLrMN6v2BKK1dXYFpXlPkccOFqm12CdAsMgRU4VrNZ9lyGVCGuMDGIwP"

// message is an activation message with a number for its id.
func message(n int) string {
	return fmt.Sprintf(`{"action":{"name":"hello","path":"guest","version":"0.0.1"},"activationId":"%032x",`+
		`"blocking":true,"content":{"password":"%s"},"initArgs":[],"lockedArgs":{},"revision":"1-a",`+
		`"rootControllerIndex":{"asString":"0","instanceType":"controller"},"transid":["%d",1700000000000],`+
		`"user":{"authkey":{"api_key":"u:%s"},"limits":{},"namespace":{"name":"guest","uuid":"u"},`+
		`"rights":["ACTIVATE"],"subject":"guest"}}`, n, secret, n, secret)
}

func messages(from, to int) []string {
	var all []string
	for n := from; n < to; n++ {
		all = append(all, message(n))
	}
	return all
}

// number is the id of a delivery's message as message made it.
func number(d Delivery) int {
	var n int
	fmt.Sscanf(string(d.Message.ActivationID), "%x", &n)
	return n
}

// captured are the records of one kind that the original was seen to write.
func captured(t testing.TB, topic string) [][]byte {
	t.Helper()
	const scenarios = "../testdata/golden/scenarios/"
	dirs, err := os.ReadDir(scenarios)
	if err != nil {
		t.Fatal(err)
	}
	var values [][]byte
	for _, dir := range dirs {
		data, err := os.ReadFile(scenarios + dir.Name() + "/records.jsonl")
		if err != nil {
			continue
		}
		lines := bufio.NewScanner(bytes.NewReader(data))
		lines.Buffer(nil, 64<<20)
		for lines.Scan() {
			var r struct {
				Topic      string
				Value      string
				ValueBytes int
			}
			if json.Unmarshal(lines.Bytes(), &r) == nil && r.Topic == topic && len(r.Value) == r.ValueBytes {
				values = append(values, []byte(r.Value))
			}
		}
	}
	if len(values) == 0 {
		t.Fatalf("no captured records of topic %s", topic)
	}
	return values
}
