// Package rules evaluates recording and alerting rules by Prometheus' own rule manager, for databases that files of
// rules are named for, and sends alerts to Alertmanagers.
//
// A Service reads the files when it is made and follows them while it runs. What a file says is checked as a whole
// before any of it holds; a bad version of one database's files keeps what they said before. In a cluster the service
// that wins the election evaluates all rules; the others answer what they would say on demand (mirror). Queries and
// writes go through interfaces of this package (Engine, Writer): it depends on no HTTP server, no cluster and no node.
package rules
