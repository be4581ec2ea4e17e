package influxql

import (
	"errors"
	"time"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/api/processor"
	"github.com/tickmesh/tickmesh/router/query/influxql/answer"
	"github.com/tickmesh/tickmesh/router/query/influxql/load"
)

// execution is one request while its statements run.
type execution struct {
	*handler
	load.Reader
	database string    // of statements that name none; canonical
	now      time.Time // the one moment that the whole request means by now()
	rowsLeft int64
	rows     int64
}

// errRowsEnough ends a statement whose answer has as many rows as it may have.
var errRowsEnough = errors.New("the answer has as many rows as it may have")

// limitedSink counts rows and stops at the most that an answer may have.
type limitedSink struct {
	answer.Format
	x *execution
}

// Series implements answer.Sink.
func (s *limitedSink) Series(h *answer.Head) error {
	if s.x.rowsLeft == 0 {
		return errRowsEnough
	}
	s.Format.Series(h)
	return nil
}

// Row implements answer.Sink.
func (s *limitedSink) Row(timeNs int64, values []answer.Value) error {
	if s.x.rowsLeft == 0 {
		return errRowsEnough
	}
	s.x.rowsLeft--
	if s.x.rows++; s.x.rows&(1<<10-1) == 0 {
		processor.Of(s.x.Ctx).Pace()
		if err := s.x.Ctx.Err(); err != nil {
			return err
		}
	}
	s.Format.Row(timeNs, values)
	return nil
}

// on returns the database that a statement names, or the request's.
func (x *execution) on(name string) string {
	if name == "" {
		return x.database
	}
	return access.Canonical(name)
}
