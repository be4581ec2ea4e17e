package ingest

import (
	"strconv"

	"github.com/tickmesh/tickmesh/api/jsontext"
)

// appendJSONMember appends `"name":"text"`.
func appendJSONMember(dst []byte, name, text string) []byte {
	dst = append(append(append(dst, '"'), name...), `":`...)
	return jsontext.Append(dst, text)
}

// appendJSONCount appends `"name":n`.
func appendJSONCount(dst []byte, name string, n int) []byte {
	dst = append(append(append(dst, '"'), name...), `":`...)
	return strconv.AppendInt(dst, int64(n), 10)
}
