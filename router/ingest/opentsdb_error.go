package ingest

import (
	"bytes"
	"encoding/json"

	"github.com/tickmesh/tickmesh/api/jsontext"
	"github.com/tickmesh/tickmesh/api/parse"
)

// appendPutError appends OpenTSDB's error object.
func appendPutError(dst []byte, status int, message, details string) []byte {
	dst = appendJSONCount(append(dst, `{"error":{`...), "code", status)
	dst = appendJSONMember(append(dst, ','), "message", message)
	if details != "" {
		dst = appendJSONMember(append(dst, ','), "details", details)
	}
	return append(dst, "}}"...)
}

// appendDetail appends one element of "errors". A datapoint that is not JSON
// stands there as a string.
func appendDetail(dst []byte, message string, datapoint []byte) []byte {
	dst = appendJSONMember(append(dst, '{'), "error", message)
	dst = append(dst, `,"datapoint":`...)
	datapoint = bytes.TrimSpace(datapoint)
	if len(datapoint) > 0 && datapoint[0] == '{' && json.Valid(datapoint) {
		dst = append(dst, bytes.ToValidUTF8(datapoint, []byte("\uFFFD"))...)
	} else {
		dst = jsontext.Append(dst, datapoint[:min(len(datapoint), parse.ExcerptBytesMax)])
	}
	return append(dst, '}')
}
