package api

import (
	"fmt"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/api/wire"
	tickmeshv1 "github.com/tickmesh/tickmesh/proto/tickmesh/v1"
	"github.com/tickmesh/tickmesh/router/tenant"
)

// databasesMax bounds the databases that one stream writes to.
const databasesMax = 1024

// noDatabase is the number of none.
const noDatabase = 1<<32 - 1

// sessionDatabase is a database that a stream's handles belong to.
type sessionDatabase struct {
	name    string
	account *tenant.Account

	// Of the batch in which it was met last.
	batch  uint64
	denied error // why its samples are left out; nil: they are not
	points int
}

// share is what a batch has of one database.
type share struct {
	account *tenant.Account
	points  int
}

// database returns the number of a series' database in the session, and makes the message
// name it in its canonical form. Any name is taken, as data that is restored may have names
// that no other way in takes. Errors: wire.ErrInvalid.
func (x *session) database(m *tickmeshv1.Series) (uint32, error) {
	name := access.Canonical(string(m.GetDatabase()))
	if m != nil {
		m.Database = []byte(name)
	}
	if n := len(x.databases); n > 0 && x.databases[x.lastDatabase].name == name {
		return x.lastDatabase, nil
	}
	number, ok := x.databaseOf[name]
	if !ok {
		if len(x.databases) == databasesMax {
			return 0, fmt.Errorf("%w: the stream writes to more than %d databases; open another one", wire.ErrInvalid, databasesMax)
		}
		number = uint32(len(x.databases))
		x.databases = append(x.databases, sessionDatabase{name: name})
		x.databaseOf[name] = number
	}
	x.lastDatabase = number
	return number, nil
}

// enter reports why the samples of a database are left out of the batch, if so: whether the
// caller may write to it is asked once for each batch.
func (x *session) enter(number uint32) error {
	d := &x.databases[number]
	if d.batch == x.batch {
		return d.denied
	}
	d.batch, d.points, d.denied = x.batch, 0, access.Check(x.ctx, d.name, access.Write)
	if d.denied != nil {
		d.denied = withKind(d.denied)
		return d.denied
	}
	if d.account == nil {
		d.account = x.s.options.Meter.Open(d.name)
	}
	x.met = append(x.met, number)
	return nil
}

// shares takes the points of the batch out of the rates of their databases, all or none.
// Errors: *tenant.RateError.
func (x *session) shares(out *outgoing, handles []uint32) error {
	if len(x.met) == 1 {
		x.databases[x.met[0]].points = out.encoder.Frame().Points
	} else {
		for _, number := range handles {
			if h := &x.handles[number]; h.wrong == nil {
				x.databases[h.database].points++
			}
		}
	}
	for _, number := range x.met {
		d := &x.databases[number]
		if err := d.account.Take(d.points); err != nil {
			out.giveBack()
			return err
		}
		out.shares = append(out.shares, share{d.account, d.points})
	}
	return nil
}

// giveBack returns to the rates what was taken and is not written.
func (o *outgoing) giveBack() {
	for _, s := range o.shares {
		s.account.Give(s.points)
	}
	o.shares = o.shares[:0]
}

// failed notes for each database that the batch was not written.
func (o *outgoing) failed() {
	for _, s := range o.shares {
		s.account.Wrote(0, 0, s.points, 0)
	}
	o.giveBack()
}

// wrote notes for each database that its points are written; the bytes are those of the
// encoded batch, in proportion.
func (o *outgoing) wrote() {
	frame, size := o.encoder.Frame(), 0
	for i := range frame.Parts {
		size += len(frame.Parts[i].Batch)
	}
	for _, s := range o.shares {
		bytes := 0
		if frame.Points > 0 {
			bytes = int(float64(size) * float64(s.points) / float64(frame.Points))
		}
		s.account.Wrote(s.points, 0, 0, bytes)
	}
}
