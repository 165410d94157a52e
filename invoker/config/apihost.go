package config

import (
	"net"
	"strconv"
	"strings"
)

// APIHost is the OpenWhisk API as actions see it.
type APIHost struct {
	Proto string
	Name  string
	Port  int
}

// URL is the address in the form that __OW_API_HOST has: the host in lower
// case, a port that the protocol implies left out.
func (a APIHost) URL() string {
	host := strings.ToLower(a.Name)
	if a.Proto == "https" && a.Port == 443 || a.Proto == "http" && a.Port == 80 || a.Port == 0 {
		return a.Proto + "://" + host
	}
	return a.Proto + "://" + net.JoinHostPort(strings.Trim(host, "[]"), strconv.Itoa(a.Port))
}
