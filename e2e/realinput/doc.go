// Package realinput runs Debian's collectd and Prometheus, unmodified, against a
// started `tickmesh standalone`, and compares what /api/query returns with what the
// collector itself says: collectd's csv plugin, which writes the same values
// beside, and Prometheus' answers about the samples that it sent. Debian's Mosquitto
// is the broker that a server reads from while both are stopped and killed.
//
// It has tests only. They build the server, install the collectors when they are
// missing and the tests may, and fail, rather than skip, when they cannot; -short
// skips them.
package realinput
