// Package influxql serves the query side of InfluxDB 1.8's HTTP API, /query, over a
// scan.Source. The text is parsed by InfluxData's own parser; what the statements mean is
// written here.
//
// A request goes through these steps:
//
//	handler.ServeHTTP   parameters, the parser, one statement after the other
//	compile.Compile     a SELECT is checked as InfluxDB checks it
//	schema              fields and tags of the measurements; wildcards are expanded
//	newSelection        what is to be read, computed and answered
//	load.Reader         scans: series become tables (fields joined by time), or windows
//	selection.run       groups, one after the other: calls become points, points rows
//	answer.Format       rows become JSON or CSV, sent as they grow
//
// # Fields
//
// A point of line protocol is stored as one series for each field: the tag _field has the
// field's name, and a field named value has no such tag. A table joins the series of one
// set of tags again, by time. All numbers are float64; count() and elapsed() give whole
// numbers, which take part in arithmetic as InfluxDB's integers do. A NaN is no value.
//
// # Aggregates
//
// count, sum, mean, min, max, first, last and spread are asked of the nodes as windows
// where the answer does not depend on the time of single samples and no field is compared;
// other functions read samples. Windows of several series are merged in the order of
// their keys, so an answer has the same bits however the series are spread.
package influxql
