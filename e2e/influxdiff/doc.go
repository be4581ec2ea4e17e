// Package influxdiff asks TickMesh's InfluxQL and a real InfluxDB (Debian's package
// influxdb, 1.6) the same random queries over the same points, and compares the answers.
// The tests are skipped where influxd is not there and cannot be installed.
//
// Where the two differ on purpose or by version is written beside the test that passes
// over it.
package influxdiff
