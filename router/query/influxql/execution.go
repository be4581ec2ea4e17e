package influxql

import (
	"context"
	"errors"
	"time"

	ql "github.com/influxdata/influxql"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/api/processor"
	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/router/query/admission"
)

// execution is one request while its statements run.
type execution struct {
	*handler
	ctx      context.Context
	entry    *admission.Entry
	source   scan.Source
	database string    // of statements that name none; canonical
	now      time.Time // the one moment that the whole request means by now()
	rowsLeft int64
	rows     int64
}

// errRowsEnough ends a statement whose answer has as many rows as it may have.
var errRowsEnough = errors.New("the answer has as many rows as it may have")

// limitedSink counts rows and stops at the most that an answer may have.
type limitedSink struct {
	format
	x *execution
}

func (s *limitedSink) series(h *head) error {
	if s.x.rowsLeft == 0 {
		return errRowsEnough
	}
	s.format.series(h)
	return nil
}

func (s *limitedSink) row(timeNs int64, values []value) error {
	if s.x.rowsLeft == 0 {
		return errRowsEnough
	}
	s.x.rowsLeft--
	if s.x.rows++; s.x.rows&(1<<10-1) == 0 {
		processor.Of(s.x.ctx).Pace()
		if err := s.x.ctx.Err(); err != nil {
			return err
		}
	}
	s.format.row(timeNs, values)
	return nil
}

// execute runs one statement and writes its rows.
func (x *execution) execute(statement ql.Statement, out format) (end ending) {
	end.err = x.dispatch(statement, &limitedSink{format: out, x: x})
	if errors.Is(end.err, errRowsEnough) {
		end.err, end.partial = nil, true
	}
	return end
}

// on returns the database that a statement names, or the request's.
func (x *execution) on(name string) string {
	if name == "" {
		return x.database
	}
	return access.Canonical(name)
}
