package ingest

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/valyala/fasthttp"

	"github.com/tickmesh/tickmesh/api/parse"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/router/ingest/refusal"
)

// Headers by which a request says how it is to be written.
const (
	headerIdempotencyKey = "Idempotency-Key"
	headerLevel          = "X-Tickmesh-Level"

	idempotencyKeyBytesMax = 255
)

// writeOptions are what a request asks of its write beside its points.
type writeOptions struct {
	level series.Level
	extra parse.ExtraLabels
	keyed bool
	// request is a hash of the key and of all that decides what the request writes.
	request [sha256.Size]byte
}

// argumentExtraLabel is the query arg by which VictoriaMetrics' clients label all that they write.
const argumentExtraLabel = "extra_label"

// writeOptionsOf reads the headers, and the query args that all dialects know, of a request with such a body, decoded.
// Errors: refusal.ErrArgument.
func writeOptionsOf(request *fasthttp.RequestCtx, c *caller, body []byte) (o writeOptions, err error) {
	if o.level, err = levelOf(request); err != nil {
		return o, err
	}
	if o.extra, err = extraLabelsOf(request); err != nil {
		return o, err
	}
	key, err := idempotencyKeyOf(request)
	if err != nil || key == nil {
		return o, err
	}
	o.keyed, o.request = true, hashOf(request, c, key, body, &o.extra)
	return o, nil
}

// levelOf returns how many copies a request wants its write to have.
func levelOf(request *fasthttp.RequestCtx) (series.Level, error) {
	switch level := fieldOf(request, headerLevel); string(level) {
	case "", "majority":
		return series.LevelMajority, nil
	case "all":
		return series.LevelAll, nil
	default:
		return 0, fmt.Errorf("%w: %s is %q, want all or majority", refusal.ErrArgument, headerLevel, level)
	}
}

// extraLabelsOf returns the labels that a request gives to all that it writes.
func extraLabelsOf(request *fasthttp.RequestCtx) (extra parse.ExtraLabels, err error) {
	args := request.QueryArgs()
	if !args.Has(argumentExtraLabel) {
		return extra, nil
	}
	var labels []string
	for _, label := range args.PeekMulti(argumentExtraLabel) {
		labels = append(labels, string(label))
	}
	if extra, err = parse.NewExtraLabels(labels); err != nil {
		return extra, fmt.Errorf("%w: %w", refusal.ErrArgument, err)
	}
	return extra, nil
}

// idempotencyKeyOf returns the key of a request; nil: it has none.
func idempotencyKeyOf(request *fasthttp.RequestCtx) (key []byte, err error) {
	keys := fieldsOf(request, headerIdempotencyKey)
	switch {
	case len(keys) == 0:
		return nil, nil
	case len(keys) > 1:
		return nil, fmt.Errorf("%w: %d headers %s, want one", refusal.ErrArgument, len(keys), headerIdempotencyKey)
	}
	key = keys[0]
	if len(key) == 0 || len(key) > idempotencyKeyBytesMax {
		return nil, fmt.Errorf("%w: %s has %d bytes, want 1 to %d", refusal.ErrArgument, headerIdempotencyKey, len(key), idempotencyKeyBytesMax)
	}
	for _, c := range key {
		if c < ' ' || c > '~' {
			return nil, fmt.Errorf("%w: %s has the byte %#02x, want printable ASCII", refusal.ErrArgument, headerIdempotencyKey, c)
		}
	}
	return key, nil
}

// hashOf returns a hash of the key and of all that decides what the request writes. What a request lacks and only later
// versions know is not part of it, so that other requests have the hashes that they had with earlier versions.
func hashOf(request *fasthttp.RequestCtx, c *caller, key, body []byte, extra *parse.ExtraLabels) (sum [sha256.Size]byte) {
	hash := sha256.New()
	write := func(part []byte) {
		var length [8]byte
		binary.LittleEndian.PutUint64(length[:], uint64(len(part)))
		hash.Write(length[:])
		hash.Write(part)
	}
	args := request.QueryArgs()
	for _, part := range [...][]byte{
		key, request.Path(), args.Peek("db"), args.Peek("bucket"), args.Peek("precision"), request.Request.Header.ContentType(), body,
	} {
		write(part)
	}
	if database := fieldOf(request, headerDatabase); c.prefixed || len(database) > 0 {
		write(c.database)
		write(database)
	}
	if len(extra.Text()) > 0 {
		write([]byte(argumentExtraLabel))
		write(extra.Text())
	}
	for _, name := range [...]string{argumentTimestamp, argumentFormat} {
		if value := args.Peek(name); len(value) > 0 {
			write([]byte(name))
			write(value)
		}
	}
	hash.Sum(sum[:0])
	return sum
}

// setOn puts the options on the frame of some lines of the request.
//
// The frame's id follows from the key, the request, and which lines and how many
// points the frame has. So it is the same through any router, whatever series that
// router knows, as the lines of a request are divided into pieces by their text, and
// the points of a piece into shards by their keys. Were two routers to divide a
// request differently, as two versions might, or to leave out more or fewer points,
// their ids would differ: then points are written twice, and never left out.
func (o *writeOptions) setOn(frame *series.Frame, first, lines int) {
	frame.Level = o.level
	if !o.keyed {
		return
	}
	var text [sha256.Size + 3*8]byte
	b := append(text[:0], o.request[:]...)
	b = binary.LittleEndian.AppendUint64(b, uint64(first))
	b = binary.LittleEndian.AppendUint64(b, uint64(lines))
	b = binary.LittleEndian.AppendUint64(b, uint64(frame.Points))
	sum := sha256.Sum256(b)
	frame.ID = series.KeyedID(binary.LittleEndian.Uint64(sum[:]))
}
