package migrate

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/klauspost/compress/snappy"
	"github.com/prometheus/prometheus/prompb"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/tickmesh/tickmesh/api/client"
)

// Bounds of remote read.
const (
	frameBytesMax   = 64 << 20  // of a stream; Prometheus' own are of a megabyte
	messageBytesMax = 256 << 20 // of an answer that is no stream, decompressed
)

// prometheus reads by Prometheus' remote read, streamed chunks where the source has them and samples where not.
type prometheus struct{ *web }

// Metric implements Source.
func (prometheus) Metric(name string) string { return name }

// labelValues is the answer of /api/v1/label/NAME/values.
type labelValues struct {
	Status    string   `json:"status"`
	Data      []string `json:"data"`
	Warnings  []string `json:"warnings"`
	IsPartial bool     `json:"isPartial"` // of vmselect
}

// Names implements Source.
func (p prometheus) Names(ctx context.Context, fromMs, toMs int64) ([]string, error) {
	return p.metricNames(ctx, fromMs, toMs)
}

// metricNames returns the sorted values of the label __name__.
func (w *web) metricNames(ctx context.Context, fromMs, toMs int64) ([]string, error) {
	var answer labelValues
	err := w.list(ctx, request{path: "/api/v1/label/__name__/values", query: url.Values{"start": {seconds(fromMs)}, "end": {seconds(toMs)}, "deny_partial_response": {"1"}}}, &answer)
	switch {
	case err != nil:
		return nil, err
	case answer.Status != "success":
		return nil, malformed("a list of names has the status %q", answer.Status)
	case answer.IsPartial || len(answer.Warnings) > 0:
		return nil, temporary(fmt.Errorf("the source's list of names is not whole: %.200q", answer.Warnings))
	}
	slices.Sort(answer.Data)
	return answer.Data, nil
}

// seconds writes a time as Prometheus and its kind read it.
func seconds(ms int64) string { return strconv.FormatFloat(float64(ms)/1000, 'f', 3, 64) }

// Begins implements Source.
func (p prometheus) Begins(ctx context.Context, beforeMs int64) (begins, ok bool, err error) {
	names, err := p.metricNames(ctx, 0, beforeMs-1)
	return len(names) > 0, true, err
}

// Read implements Source.
func (p prometheus) Read(ctx context.Context, name string, fromMs, toMs int64, visit Visitor) (LeftOut, error) {
	question := prompb.ReadRequest{
		Queries: []*prompb.Query{{
			StartTimestampMs: fromMs, EndTimestampMs: toMs,
			Matchers: []*prompb.LabelMatcher{{Type: prompb.LabelMatcher_EQ, Name: metricLabel, Value: name}},
		}},
		AcceptedResponseTypes: []prompb.ReadRequest_ResponseType{prompb.ReadRequest_STREAMED_XOR_CHUNKS, prompb.ReadRequest_SAMPLES},
	}
	body, err := question.Marshal()
	if err != nil {
		return LeftOut{}, err
	}
	answer, err := p.ask(ctx, request{path: "/api/v1/read", body: snappy.Encode(nil, body), header: map[string]string{
		"Content-Type": "application/x-protobuf", "Content-Encoding": "snappy", "X-Prometheus-Remote-Read-Version": "0.1.0",
	}})
	if err != nil {
		return LeftOut{}, err
	}
	defer answer.Body.Close()
	r := remoteReading{fromMs: fromMs, toMs: toMs, visit: visit}
	if isStreamed(answer.Header) {
		err = r.chunks(bufio.NewReaderSize(answer.Body, 64<<10))
	} else {
		err = r.samples(answer.Body)
	}
	return r.leftOut, err
}

func isStreamed(header http.Header) bool {
	media, _, err := mime.ParseMediaType(header.Get("Content-Type"))
	return err == nil && media == "application/x-streamed-protobuf"
}

const metricLabel = "__name__"

// remoteReading reads the answer to one question.
type remoteReading struct {
	fromMs, toMs int64
	visit        Visitor
	leftOut      LeftOut

	times  []int64
	values []float64
}

// chunks reads frames: the length of a message as a varint, its CRC-32C, the message. Chunks may reach beyond the
// range.
func (r *remoteReading) chunks(in *bufio.Reader) error {
	table := crc32.MakeTable(crc32.Castagnoli)
	var frame []byte
	for {
		size, err := binary.ReadUvarint(in)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return broken(err)
		}
		if size > frameBytesMax {
			return malformed("a frame of %d bytes, more than %d", size, frameBytesMax)
		}
		frame = slices.Grow(frame[:0], crc32.Size+int(size))[:crc32.Size+int(size)]
		if _, err := io.ReadFull(in, frame); err != nil {
			return broken(err)
		}
		message := frame[crc32.Size:]
		if crc32.Checksum(message, table) != binary.BigEndian.Uint32(frame) {
			return temporary(malformed("a frame has another checksum than it says"))
		}
		var part prompb.ChunkedReadResponse
		if err := part.Unmarshal(message); err != nil {
			return malformed("a frame: %w", err)
		}
		for _, s := range part.ChunkedSeries {
			if err := r.chunkedSeries(s); err != nil {
				return err
			}
		}
	}
}

func (r *remoteReading) chunkedSeries(s *prompb.ChunkedSeries) error {
	r.times, r.values = r.times[:0], r.values[:0]
	var iterator chunkenc.Iterator
	for _, part := range s.Chunks {
		if part.MaxTimeMs < r.fromMs || part.MinTimeMs > r.toMs {
			continue
		}
		if len(part.Data) < 2 { // a chunk begins with the number of its samples
			return malformed("a chunk of %d bytes", len(part.Data))
		}
		switch part.Type {
		case prompb.Chunk_XOR:
		case prompb.Chunk_XOR2: // which has a byte more before its samples
			if len(part.Data) < 3 {
				return malformed("a chunk of %d bytes", len(part.Data))
			}
		case prompb.Chunk_HISTOGRAM, prompb.Chunk_FLOAT_HISTOGRAM, prompb.Chunk_HISTOGRAM_ST, prompb.Chunk_FLOAT_HISTOGRAM_ST:
			r.leftOut.Histograms += r.share(&part)
			continue
		default:
			return malformed("a chunk of the unknown type %d", part.Type)
		}
		chunk, err := chunkenc.FromData(chunkenc.Encoding(part.Type), part.Data) // the numbers are the same
		if err != nil {
			return malformed("a chunk: %w", err)
		}
		iterator = chunk.Iterator(iterator)
		for iterator.Next() != chunkenc.ValNone {
			if ms, v := iterator.At(); ms >= r.fromMs && ms <= r.toMs {
				r.times, r.values = append(r.times, ms), append(r.values, v)
			}
		}
		if err := iterator.Err(); err != nil {
			return malformed("a chunk: %w", err)
		}
	}
	return r.give(s.Labels)
}

// share returns about how many samples of a chunk of histograms are in the range. They are not decoded: few bytes of a
// chunk may ask for any amount of memory.
func (r *remoteReading) share(c *prompb.Chunk) int64 {
	count := float64(binary.BigEndian.Uint16(c.Data)) // how every chunk begins
	all := float64(c.MaxTimeMs) - float64(c.MinTimeMs)
	if all <= 0 {
		return int64(count)
	}
	inside := float64(min(c.MaxTimeMs, r.toMs)) - float64(max(c.MinTimeMs, r.fromMs))
	return int64(math.Ceil(count * inside / all))
}

// samples reads an answer that is one message.
func (r *remoteReading) samples(in io.Reader) error {
	body, err := io.ReadAll(io.LimitReader(in, messageBytesMax+1))
	if err != nil {
		return broken(err)
	}
	size, err := snappy.DecodedLen(body)
	if err != nil {
		return malformed("snappy: %w", err)
	}
	if size > messageBytesMax || len(body) > messageBytesMax {
		return &marked{errTooMuch, malformed("an answer of more than %d bytes", messageBytesMax)}
	}
	text, err := snappy.Decode(nil, body)
	if err != nil {
		return malformed("snappy: %w", err)
	}
	var answer prompb.ReadResponse
	if err := answer.Unmarshal(text); err != nil {
		return malformed("%w", err)
	}
	for _, result := range answer.Results {
		for _, s := range result.Timeseries {
			r.times, r.values = r.times[:0], r.values[:0]
			for _, sample := range s.Samples {
				if sample.Timestamp >= r.fromMs && sample.Timestamp <= r.toMs {
					r.times, r.values = append(r.times, sample.Timestamp), append(r.values, sample.Value)
				}
			}
			r.leftOut.Histograms += int64(len(s.Histograms))
			if err := r.give(s.Labels); err != nil {
				return err
			}
		}
	}
	return nil
}

// give visits the samples that were read of a series.
func (r *remoteReading) give(named []prompb.Label) error {
	if len(r.times) == 0 {
		return nil
	}
	var metric string
	tags := make([]client.Tag, 0, len(named))
	for _, l := range named {
		switch {
		case l.Name == metricLabel:
			metric = l.Value
		case l.Value != "": // empty is as good as absent
			tags = append(tags, client.Tag{Name: l.Name, Value: l.Value})
		}
	}
	return visitNamed(r.visit, &r.leftOut, metric, tags, r.times, r.values)
}

// visitNamed visits samples of a series, or counts it if its names cannot be stored. The database is given to it
// later.
func visitNamed(visit Visitor, leftOut *LeftOut, metric string, tags []client.Tag, times []int64, values []float64) error {
	s, err := client.NewSeries(metric, tags...)
	if err != nil {
		leftOut.Series++
		return nil //nolint:nilerr // it is counted, and reported
	}
	return visit(Run{s, times, values})
}

// isFinite reports whether a number counts in a sum.
func isFinite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
