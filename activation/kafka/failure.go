package kafka

import (
	"crypto/tls"
	"errors"

	wire "github.com/segmentio/kafka-go"
)

// final tells whether err is a matter of configuration, which stays as it is
// until somebody changes it.
func final(err error) bool {
	var certificate *tls.CertificateVerificationError
	if errors.As(err, &certificate) {
		return true
	}
	switch code(err) {
	case wire.InvalidConfiguration, wire.InvalidPartitionNumber, wire.InvalidTopic,
		wire.InvalidReplicaAssignment, wire.PolicyViolation, wire.InvalidRequest,
		wire.TopicAuthorizationFailed, wire.ClusterAuthorizationFailed,
		wire.UnsupportedVersion, wire.SASLAuthenticationFailed, wire.UnsupportedSASLMechanism, wire.IllegalSASLState:
		return true
	}
	return false
}

// refused tells whether err says that the topic does not exist, or takes no
// message of ours: not a broker that is away.
func refused(err error) bool {
	switch code(err) {
	case wire.UnknownTopicOrPartition, wire.InvalidTopic, wire.TopicAuthorizationFailed,
		wire.InvalidRecord, wire.InvalidTimestamp, wire.InvalidMessage:
		return true
	}
	return false
}

// tooLarge tells whether err says that a batch is over what the topic takes.
func tooLarge(err error) bool {
	return code(err) == wire.MessageSizeTooLarge || code(err) == wire.RecordListTooLarge
}

// held tells whether err says that a group still has a member, living or not:
// a commit from outside the group is refused until it has none.
func held(err error) bool {
	switch code(err) {
	case wire.UnknownMemberId, wire.IllegalGeneration, wire.RebalanceInProgress:
		return true
	}
	return false
}

// code is the broker's word for an error, zero when it comes from elsewhere.
func code(err error) wire.Error {
	var c wire.Error
	errors.As(err, &c)
	return c
}
