package promql

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"net/http"
	"slices"

	"github.com/klauspost/compress/snappy"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/tickmesh/tickmesh/api/guard"
)

// Bounds of remote read, https://prometheus.io/docs/prometheus/latest/querying/remote_read_api/
const (
	readBytesMax     = 32 << 20 // of a request, decompressed
	readQueriesMax   = 256
	readSamplesMax   = 50_000_000 // of an answer that is not streamed, as Prometheus' default
	readFrameBytes   = 1 << 20    // after which a frame of a stream ends
	readChunkSamples = 120        // as Prometheus cuts its chunks
	contentProtobuf  = "application/x-protobuf"
	contentStreamed  = "application/x-streamed-protobuf; proto=prometheus.ChunkedReadResponse"
	encodingSnappy   = "snappy"
)

// remoteRead serves /api/v1/read: samples in one message, or chunks in frames where the
// reader takes these.
func (h *handler) remoteRead(x *exchange) error {
	body, err := readBody(x.r, readBytesMax)
	if err != nil {
		return err
	}
	request, err := decodeRead(body)
	if err != nil {
		return badData(err)
	}
	sets := make([][]*labels.Matcher, len(request.Queries))
	var m guard.Meter
	for i, query := range request.Queries {
		if sets[i], err = matchersOfRead(&m, query.Matchers); err != nil {
			return badData(err)
		}
	}
	if err := x.entry.Take(m.Bytes()); err != nil {
		return err
	}
	for _, accepted := range request.AcceptedResponseTypes {
		switch accepted {
		case prompb.ReadRequest_STREAMED_XOR_CHUNKS:
			return h.readChunks(x, request.Queries, sets)
		case prompb.ReadRequest_SAMPLES:
			return h.readSamples(x, request.Queries, sets)
		}
	}
	if len(request.AcceptedResponseTypes) > 0 {
		return badData(fmt.Errorf("server does not support any of the requested response types: %v", request.AcceptedResponseTypes))
	}
	return h.readSamples(x, request.Queries, sets)
}

// decodeRead reads a request. Its size is checked before anything is made of it.
func decodeRead(body []byte) (*prompb.ReadRequest, error) {
	size, err := snappy.DecodedLen(body)
	if err != nil {
		return nil, err
	}
	if size > readBytesMax {
		return nil, fmt.Errorf("snappy: decoded length %d exceeds limit %d", size, readBytesMax)
	}
	text, err := snappy.Decode(nil, body)
	if err != nil {
		return nil, err
	}
	request := &prompb.ReadRequest{}
	if err := request.Unmarshal(text); err != nil {
		return nil, err
	}
	if len(request.Queries) > readQueriesMax {
		return nil, fmt.Errorf("%d queries in one request, more than %d", len(request.Queries), readQueriesMax)
	}
	if slices.Contains(request.Queries, nil) {
		return nil, errors.New("a query is missing")
	}
	return request, nil
}

// matchersOfRead reads matchers, which m measures first.
func matchersOfRead(m *guard.Meter, list []*prompb.LabelMatcher) ([]*labels.Matcher, error) {
	kinds := map[prompb.LabelMatcher_Type]labels.MatchType{
		prompb.LabelMatcher_EQ: labels.MatchEqual, prompb.LabelMatcher_NEQ: labels.MatchNotEqual,
		prompb.LabelMatcher_RE: labels.MatchRegexp, prompb.LabelMatcher_NRE: labels.MatchNotRegexp,
	}
	matchers := make([]*labels.Matcher, 0, len(list))
	for _, sent := range list {
		kind, ok := kinds[sent.GetType()]
		if !ok || sent == nil {
			return nil, errors.New("invalid matcher type")
		}
		if err := m.Token(); err != nil {
			return nil, err
		}
		if kind == labels.MatchRegexp || kind == labels.MatchNotRegexp {
			if err := m.Regexp(sent.Value); err != nil {
				return nil, err
			}
		}
		matcher, err := labels.NewMatcher(kind, sent.Name, sent.Value)
		if err != nil {
			return nil, err
		}
		matchers = append(matchers, matcher)
	}
	return matchers, nil
}

// readQuery reads the series of one query, in the order of labels. The range of the query
// holds, not that of its hints, which some readers send wider.
func (h *handler) readQuery(x *exchange, query *prompb.Query, matchers []*labels.Matcher) ([]ranked, error) {
	source := &queryable{source: x.reader.Source, database: x.database, parallel: h.options.Parallel, deduplicateMs: h.deduplicateMs()}
	q := &querier{queryable: source, fromMs: query.StartTimestampMs, toMs: query.EndTimestampMs}
	runs, _, err := q.read(x.ctx, nil, matchers)
	return rank(runs, orderLabels, h.options.Parallel), err
}

// readSamples answers with one message.
func (h *handler) readSamples(x *exchange, queries []*prompb.Query, sets [][]*labels.Matcher) error {
	response := prompb.ReadResponse{Results: make([]*prompb.QueryResult, len(queries))}
	samples := 0
	for i, query := range queries {
		columns, err := h.readQuery(x, query, sets[i])
		if err != nil {
			return err
		}
		result := &prompb.QueryResult{Timeseries: make([]*prompb.TimeSeries, 0, len(columns))}
		for _, r := range columns {
			c := r.column
			if samples += len(c.times); samples > readSamplesMax {
				return badData(fmt.Errorf("exceeded sample limit (%d)", readSamplesMax))
			}
			if err := x.entry.Take(int64(3 * 16 * len(c.times))); err != nil { // here, as text, and compressed
				return err
			}
			series := &prompb.TimeSeries{Labels: prompb.FromLabels(c.labels, nil), Samples: make([]prompb.Sample, len(c.times))}
			for j, t := range c.times {
				series.Samples[j] = prompb.Sample{Timestamp: t, Value: c.values[j]}
			}
			result.Timeseries = append(result.Timeseries, series)
		}
		response.Results[i] = result
	}
	text, err := response.Marshal()
	if err != nil {
		return err
	}
	h.tellMissing(x)
	header := x.out.w.Header()
	header.Set("Content-Type", contentProtobuf)
	header.Set("Content-Encoding", encodingSnappy)
	x.out.buf = snappy.Encode(nil, text)
	return nil
}

// readChunks answers with frames: the length of a message as a varint, its CRC-32C, the
// message (storage/remote/chunked.go of Prometheus). A frame has chunks of one series.
func (h *handler) readChunks(x *exchange, queries []*prompb.Query, sets [][]*labels.Matcher) error {
	results := make([][]ranked, len(queries))
	for i, query := range queries { // all of them before the first byte is out, so that errors have a status
		columns, err := h.readQuery(x, query, sets[i])
		if err != nil {
			return err
		}
		results[i] = columns
	}
	h.tellMissing(x)
	x.out.w.Header().Set("Content-Type", contentStreamed)
	frames := framer{out: x.out}
	for i, columns := range results {
		for j := range columns {
			if err := errors.Join(x.ctx.Err(), frames.series(int64(i), columns[j].column)); err != nil {
				return err
			}
		}
		results[i] = nil
	}
	if !x.out.sent && len(x.out.buf) == 0 {
		x.out.w.WriteHeader(http.StatusOK)
	}
	return nil
}

// framer writes the frames of a stream.
type framer struct {
	out     *encoder
	message []byte
}

// castagnoli is CRC-32C.
//
//nolint:gochecknoglobals // a constant table
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// series writes one series.
func (f *framer) series(query int64, c *column) error {
	named := prompb.FromLabels(c.labels, nil)
	var chunks []prompb.Chunk
	size := 0
	for from := 0; from < len(c.times); from += readChunkSamples {
		to := min(from+readChunkSamples, len(c.times))
		chunk := chunkenc.NewXORChunk()
		appender, err := chunk.Appender()
		if err != nil {
			return err
		}
		for i := from; i < to; i++ {
			appender.Append(0, c.times[i], c.values[i])
		}
		chunks = append(chunks, prompb.Chunk{MinTimeMs: c.times[from], MaxTimeMs: c.times[to-1], Type: prompb.Chunk_XOR, Data: chunk.Bytes()})
		if size += len(chunk.Bytes()); size >= readFrameBytes || to == len(c.times) {
			if err := f.frame(&prompb.ChunkedReadResponse{QueryIndex: query, ChunkedSeries: []*prompb.ChunkedSeries{{Labels: named, Chunks: chunks}}}); err != nil {
				return err
			}
			chunks, size = nil, 0
		}
	}
	return nil
}

func (f *framer) frame(message *prompb.ChunkedReadResponse) error {
	size := message.Size()
	f.message = slices.Grow(f.message[:0], size)[:size]
	n, err := message.MarshalToSizedBuffer(f.message)
	if err != nil {
		return err
	}
	text := f.message[size-n:]
	e := f.out
	e.buf = binary.AppendUvarint(e.buf, uint64(len(text)))
	e.buf = binary.BigEndian.AppendUint32(e.buf, crc32.Checksum(text, castagnoli))
	e.buf = append(e.buf, text...)
	e.flushIfLong()
	return e.err
}
