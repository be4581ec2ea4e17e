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
	if level := fieldOf(request, headerLevel); len(level) > 0 {
		switch string(level) {
		case "all":
			o.level = series.LevelAll
		case "majority":
		default:
			return o, fmt.Errorf("%w: %s is %q, want all or majority", refusal.ErrArgument, headerLevel, level)
		}
	}
	var labels []string
	if args := request.QueryArgs(); args.Has(argumentExtraLabel) {
		for _, label := range args.PeekMulti(argumentExtraLabel) {
			labels = append(labels, string(label))
		}
		if o.extra, err = parse.NewExtraLabels(labels); err != nil {
			return o, fmt.Errorf("%w: %w", refusal.ErrArgument, err)
		}
	}
	keys := fieldsOf(request, headerIdempotencyKey)
	switch {
	case len(keys) == 0:
		return o, nil
	case len(keys) > 1:
		return o, fmt.Errorf("%w: %d headers %s, want one", refusal.ErrArgument, len(keys), headerIdempotencyKey)
	}
	key := keys[0]
	if len(key) == 0 || len(key) > idempotencyKeyBytesMax {
		return o, fmt.Errorf("%w: %s has %d bytes, want 1 to %d", refusal.ErrArgument, headerIdempotencyKey, len(key), idempotencyKeyBytesMax)
	}
	for _, c := range key {
		if c < ' ' || c > '~' {
			return o, fmt.Errorf("%w: %s has the byte %#02x, want printable ASCII", refusal.ErrArgument, headerIdempotencyKey, c)
		}
	}
	o.keyed = true
	hash := sha256.New()
	args := request.QueryArgs()
	write := func(part []byte) {
		var length [8]byte
		binary.LittleEndian.PutUint64(length[:], uint64(len(part)))
		hash.Write(length[:])
		hash.Write(part)
	}
	for _, part := range [...][]byte{
		key, request.Path(), args.Peek("db"), args.Peek("bucket"), args.Peek("precision"), request.Request.Header.ContentType(), body,
	} {
		write(part)
	}
	// Only where they are, so that the others' hashes are those of earlier versions.
	if database := fieldOf(request, headerDatabase); c.prefixed || len(database) > 0 {
		write(c.database)
		write(database)
	}
	if len(o.extra.Text()) > 0 {
		write([]byte(argumentExtraLabel))
		write(o.extra.Text())
	}
	for _, name := range [...]string{argumentTimestamp, argumentFormat} {
		if value := args.Peek(name); len(value) > 0 {
			write([]byte(name))
			write(value)
		}
	}
	hash.Sum(o.request[:0])
	return o, nil
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
