// Package dryrun tells what a query would read, without reading it.
//
// A front end runs the code that it runs for the query itself, over a Recorder in place of its source. The recorder passes on what
// asks the index (names, values of tags, series), notes what asks for samples, and finds none; so a plan is what the query does, not
// what somebody believes that it does:
//
//	recorder := dryrun.NewRecorder(source)
//	… run the query over recorder, and drop what it answers …
//	plan := recorder.Plan(ctx, dryrun.Query{…}, entry.Limits())
//
// What a query asks for only because of the values that it has read is not in its plan, as it reads none: the days on which InfluxQL
// looks for a greatest value, or the samples before the newest ones where these are younger than the time of the query.
//
// How many samples there are is estimated by the counts of a few of the series, which rollups tell of whole days.
package dryrun
