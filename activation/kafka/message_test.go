package kafka

import (
	"fmt"
)

// secret stands for a value that must never reach a log.
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
