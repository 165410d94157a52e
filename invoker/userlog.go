package invoker

import "github.com/gpuwhisk/gpuwhisk/activation"

// UserLogs gets the log lines of each activation whose logs are collected, and
// after them the activation itself, as OpenWhisk's
// DockerToActivationFileLogStore writes them. It keeps what it is given, and
// waits for nothing.
type UserLogs interface {
	Write(entry []byte)
}

// userLog makes the lines of one activation: each that its container printed is
// the JSON object of the container's log with four members more, the last is the
// activation without its logs.
func userLog(m *activation.Message, a *activation.Action, rec *activation.Record, raw [][]byte) []byte {
	space := member(nil, "namespaceId", m.User.Namespace.UUID)
	about := member(nil, "activationId", string(m.ActivationID))
	about = member(about, "action", a.FQN())
	about = append(member(about, "namespace", m.User.Namespace.Name), space...)
	size := 1024 + len(rec.Response.Result)
	for _, line := range raw {
		size += len(line) + len(about) + 1
	}
	out := make([]byte, 0, size)
	for _, line := range raw {
		out = within(append(out, line...), about)
	}
	return within(rec.AppendAck(out), space)
}

// member appends a comma and a member of a JSON object.
func member(dst []byte, key, value string) []byte {
	dst = activation.AppendString(append(dst, ','), key)
	return activation.AppendString(append(dst, ':'), value)
}

// within puts members into the object that ends dst, and ends the line.
func within(dst, members []byte) []byte {
	return append(append(dst[:len(dst)-1], members...), "}\n"...)
}
