package server

import (
	"fmt"

	"github.com/spf13/pflag"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/settings"
)

// WriteLimits bound what one client may send.
type WriteLimits struct {
	lineBytesMax, keyBytesMax                      settings.Bytes
	tagsMax, connectionsMax                        settings.Count
	bodyBytesMax, bodyDecodedMax, inFlightBytesMax settings.Bytes
}

// Define defines the flags, below HeadingWriteLimits.
func (s *WriteLimits) Define(f *pflag.FlagSet) {
	s.lineBytesMax, s.keyBytesMax = 64<<10, 8<<10
	f.Var(&s.lineBytesMax, "line-bytes-max", "length of a line")
	f.Var(&s.keyBytesMax, "key-bytes-max", "length of a series' key: database, metric and tags")
	s.tagsMax, s.connectionsMax = 64, 10_000
	f.Var(&s.tagsMax, "tags-max", "tags of a series")
	s.bodyBytesMax, s.bodyDecodedMax = 32<<20, 64<<20
	f.Var(&s.bodyBytesMax, "body-bytes-max", "body of an HTTP request as sent")
	f.Var(&s.bodyDecodedMax, "body-decoded-bytes-max", "body of an HTTP request, decompressed")
	f.Var(&s.inFlightBytesMax, "in-flight-bytes-max", "memory of all requests that are being read or written; 0: a fifth of --memory-limit, 256MiB at most")
	f.Var(&s.connectionsMax, "connections-max", "connections of each listener")
	settings.Group(f, settings.HeadingWriteLimits, "line-bytes-max", "key-bytes-max", "tags-max", "body-bytes-max",
		"body-decoded-bytes-max", "in-flight-bytes-max", "connections-max")
	settings.Hide(f, "line-bytes-max", "key-bytes-max", "tags-max", "body-decoded-bytes-max")
}

// Bounds of the limits.
const (
	connectionsMax = 1 << 20
	textBytesMax   = 1 << 30 // as the parsers place text by 32 bits
	// inFlightSlack is what the front needs beside a body and its decompressed
	// form, or beside a line; inFlightMin is room for the body of a query.
	inFlightSlack = 64<<10 + 1<<10
	inFlightMin   = 16<<20 + inFlightSlack
)

// Validate refuses limits that cannot be.
func (s *WriteLimits) Validate(v *settings.Validation) {
	v.SizeBetween("line-bytes-max", s.lineBytesMax, 1, textBytesMax)
	v.SizeBetween("key-bytes-max", s.keyBytesMax, 1, series.KeyBytesMax)
	v.SizeBetween("body-bytes-max", s.bodyBytesMax, 1, textBytesMax)
	v.SizeBetween("body-decoded-bytes-max", s.bodyDecodedMax, 1, textBytesMax)
	v.Between("tags-max", s.tagsMax, 1, series.TagsMax)
	v.Between("connections-max", s.connectionsMax, 1, connectionsMax)
	if need := s.inFlightNeed(); s.inFlightBytesMax > 0 && s.inFlightBytesMax < need {
		v.Refuse("in-flight-bytes-max", s.inFlightBytesMax.String(), fmt.Sprintf(
			"expected %d or more, room for one request of --body-bytes-max and --body-decoded-bytes-max or one line of --line-bytes-max", need))
	}
}

// inFlightNeed returns the room that one largest request takes.
func (s *WriteLimits) inFlightNeed() settings.Bytes {
	return max(s.bodyBytesMax+s.bodyDecodedMax+inFlightSlack, s.lineBytesMax+inFlightSlack, inFlightMin)
}
