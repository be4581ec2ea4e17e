// Package interchange writes and reads samples as text that other programs know:
// InfluxDB line protocol, CSV, and OpenTSDB's JSON. What a Writer wrote a Reader returns
// back bit by bit, whatever the names and values: NaN with its payload, infinities,
// −0, names that are no UTF-8.
//
// # Line protocol
//
// One field a line, times in nanoseconds. What line protocol cannot say (names that no
// escape covers, values that are not finite, years beyond 2262) is a comment, which
// other programs pass over:
//
//	#tickmesh <key, base64> <time, ms> <float64, 16 hexadecimal digits>
//
// The key is series.Key without its database.
//
// # JSON
//
// An array of datapoints as /api/put takes them, one a line. What it cannot say is
//
//	{"key":"<base64>","timestamp_ms":<ms>,"bits":"<16 hexadecimal digits>"}
//
// # CSV
//
// Columns metric, tags, time_ms, value. Tags are name=value with commas between. In
// metric and tags a backslash stands before backslash, comma and =, and \xNN is a byte
// that is no printable UTF-8. A value is a decimal number, +Inf, -Inf, NaN, or 0x and
// the 16 digits of a NaN that strconv.ParseFloat would not give. When reading, columns
// may come in any order, time in RFC 3339 may stand for time_ms, and any other column
// is a tag with its header as name, which series with an empty cell do not have.
package interchange
