// Package opentsdbdiff asks TickMesh and a real OpenTSDB (2.4.1, over an HBase of one process; the jars
// of both come from Maven) the same questions over the same points, and compares the answers: statuses,
// JSON, and whether a number is written as an integer or as a double.
//
// TestOpenTSDB does so with the real one, which takes it a minute to start. What that one answers is kept in
// testdata/opentsdb-2.4.1.json, from which TestRecordedAnswers asks everywhere:
//
//	go test -count=1 -run TestOpenTSDB ./e2e/opentsdbdiff -args -live -rewrite
//
// Where the two differ on purpose is the list in differences_test.go, with the reasons.
package opentsdbdiff
