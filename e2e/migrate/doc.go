// Package migrate runs `tickmesh import --from` against real databases, unmodified: Debian's Prometheus,
// VictoriaMetrics and InfluxDB are filled, and what a started server has afterwards is compared, bit by bit, with what
// was written to them. An import is killed in between and goes on; what differs in the end is told.
//
// It has tests only. They build the server, install the databases when they are missing and the tests may, and fail,
// rather than skip, when they cannot; -short skips them.
package migrate
