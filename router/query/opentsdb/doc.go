// Package opentsdb serves the query side of OpenTSDB's HTTP API (2.4, with the
// aggregators that TickTock adds) over a scan.Source.
//
// A request of /api/query goes through these steps:
//
//	parseParameters, parseBody   the request becomes a dataQuery of subQuery
//	planSpan                     which samples matter, which points are answered
//	handler.run                  one scan: chunks become columns (worker), one per
//	                             series, downsampled, filled and turned into rates
//	                             in the visitors, then put into the order of keys,
//	                             where the function depends on it
//	groupColumns                 columns become groups, with their tags
//	merger.merge                 a group becomes points, interpolated and merged
//	pointWriter                  points become JSON, sent as it grows
//
// A request that reads is a query of admission control, which bounds its time, what it reads and
// the memory that it is charged for. All scans of a request end before its answer begins,
// so their errors have a status. Because sums over series are exact (api/exactsum), and all
// else is merged in the order of keys, an answer has the same bits however series are spread
// over nodes.
//
// What follows OpenTSDB's code where its documentation is silent:
//
//   - Windows start at multiples of their width since the epoch. A window counts
//     when it starts in the range asked for, and is then complete, beyond the
//     range's end too. A window over all leaves out the range's end.
//   - A line that crosses an end of the range, and the first rate, come from
//     points outside of it as far as they are in the same hour as that end: that
//     is how far OpenTSDB reads.
//   - Rates hold until the next one; they are never interpolated.
//   - A tag that only some members of a group have, with one value, is among the
//     group's tags and not among its aggregateTags.
//   - Windows are filled in each series that has a sample in the hours of the range, in or out of it.
//   - Every filter but not_key needs its tag to be there.
//
// What differs, on purpose:
//
//   - All values are float64, so integers are neither divided nor interpolated as
//     integers. Numbers are written in their shortest form. OpenTSDB writes integers where it
//     stored such; which samples these are is not known, so a result is of integers if all its samples
//     are whole and nothing was made of them that may be none (group.integers). Else its whole numbers
//     have a point, too.
//   - NaN and infinities, and both fill policies nan and null, are written as null
//     unless the parameter nan=string asks for OpenTSDB's
//     text, which clients in Go cannot decode.
//   - A stored NaN, which OpenTSDB refuses to store, is no sample to a downsampler
//     and a point that is not a number everywhere else.
//   - In seconds, one point of each second is written, the last.
//   - A series has no rate before its second point; OpenTSDB lets a rate against
//     zero at the epoch count there.
//   - The percentiles epNNr3 and epNNr7 are what they are called; OpenTSDB 2.4.1 computes both as pNN.
//   - wildcard is anchored on both sides whatever its form; regexp is RE2.
//   - Windows of a calendar never depend on where the data starts: see calendar.
//   - The fill policy scalar takes its number: 1m-avg-scalar(5).
//   - An unknown metric, tag or value is an error, as in OpenTSDB, but only where nothing is
//     found: of a|b one may be unknown.
//   - tsuids are the series' keys in hexadecimal digits.
//   - Results without a point in the range are left out.
package opentsdb
