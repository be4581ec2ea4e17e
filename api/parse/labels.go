package parse

import (
	"encoding/binary"
	"strconv"
	"unicode/utf8"

	"github.com/tickmesh/tickmesh/api/series"
)

// metricLabel is the label that holds the metric's name.
const metricLabel = "__name__"

// readLabels reads a run of protobuf Label fields: name = 1, value = 2. Labels
// with an empty value are as good as absent, as in Prometheus.
func (k *KeyBuilder) readLabels(run []byte) fault {
	k.reset()
	k.metric = nil
	w := wire{b: run}
	for w.next() {
		if w.field != 1 || !w.is(wireBytes) {
			return syntaxFault("invalid labels")
		}
		name, value, err := readLabel(run[w.data:w.at])
		if err != nil {
			return syntaxFault("invalid labels: " + err.Error())
		}
		if len(name) == 0 || !utf8.Valid(name) || !utf8.Valid(value) {
			return syntaxFault("invalid metric name or labels, got " + strconv.Quote(string(name)) + "=" + strconv.Quote(string(value)))
		}
		if len(value) > 0 {
			k.tags = append(k.tags, series.Tag{Name: name, Value: value})
		}
	}
	if w.err != nil {
		return syntaxFault("invalid labels: " + w.err.Error())
	}
	k.sortTags()
	if i := k.repeatedName(); i > 0 {
		return syntaxFault("invalid labels for series, duplicated label " + string(k.tags[i].Name))
	}
	for i := range k.tags {
		if string(k.tags[i].Name) == metricLabel {
			k.metric = k.tags[i].Value
			k.tags = append(k.tags[:i], k.tags[i+1:]...)
			return fault{}
		}
	}
	return syntaxFault("invalid metric name or labels: no " + metricLabel)
}

func readLabel(message []byte) (name, value []byte, err error) {
	w := wire{b: message}
	for w.next() {
		if w.field > 2 {
			continue
		}
		if !w.is(wireBytes) {
			return nil, nil, w.fault()
		}
		if w.field == 1 {
			name = message[w.data:w.at]
		} else {
			value = message[w.data:w.at]
		}
	}
	return name, value, w.err
}

// appendLabel appends a protobuf Label as field 1, the form of remote write 1.0: name = 1, value = 2, which is
// the value given with a suffix.
func appendLabel[N, V string | []byte](dst []byte, name N, value V, suffix string) []byte {
	const field1, field2 = 1<<3 | wireBytes, 2<<3 | wireBytes
	valueLen := len(value) + len(suffix)
	size := 1 + uvarintBytes(len(name)) + len(name) + 1 + uvarintBytes(valueLen) + valueLen
	dst = binary.AppendUvarint(append(dst, field1), uint64(size))
	dst = append(binary.AppendUvarint(append(dst, field1), uint64(len(name))), name...)
	dst = binary.AppendUvarint(append(dst, field2), uint64(valueLen))
	return append(append(dst, value...), suffix...)
}

func uvarintBytes(n int) int {
	bytes := 1
	for ; n >= 0x80; n >>= 7 {
		bytes++
	}
	return bytes
}
