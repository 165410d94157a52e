// Package tests runs the collection as an operator does: ansible-playbook with an
// inventory of three hosts, on invokers that OpenWhisk's role has started, with a real
// Kafka, a CouchDB API, a Docker engine, and a controller that sends work. The hosts
// share this machine's Docker, and differ by the numbers of their invokers. One host is
// a machine with systemd.
//
//	.ci/ansible     builds the prerequisites and runs the tests
package tests
