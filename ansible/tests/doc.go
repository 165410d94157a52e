// Package tests runs the collection as an operator does: ansible-playbook with
// an inventory of three hosts, against invokers that OpenWhisk's role would
// have started, among a real Kafka, a CouchDB API and a Docker engine, with a
// controller that sends them work. The hosts share this machine's Docker: they
// differ by the numbers of their invokers. One is a machine with systemd.
//
//	.ci/ansible     builds what is needed and runs it
package tests
