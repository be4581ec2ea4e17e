package ingest

import (
	"bytes"
	"context"
	"fmt"
	"strconv"

	"github.com/valyala/fasthttp"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/api/audit"
	"github.com/tickmesh/tickmesh/api/budget"
	"github.com/tickmesh/tickmesh/api/origin"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/router/ingest/refusal"
	"github.com/tickmesh/tickmesh/router/tenant"
)

// caller is who sends a request.
type caller struct {
	principal access.Principal // nil: nobody was asked who it is, as only the health was asked for
	database  []byte           // that the path named, canonical
	prefixed  bool             // the path named one
	// Where only the header counts: the database that it, or the caller's rights, name. The
	// principal has no rights on others then.
	tenant   []byte
	tenanted bool
	sender   origin.Sender // whose page, if any, may have sent the request

	refusal error          // why the request was refused, for the audit log
	request *audit.Request // of Options.Other; nil: it has not come so far, or nothing is gathered
}

// may reports whether the caller has a right on a database; the error is a *access.DeniedError.
func (c *caller) may(database string, right access.Right) error {
	if c.principal == nil {
		return &access.DeniedError{Database: database, Right: right}
	}
	return access.May(c.principal, database, right)
}

// context puts what is known of the caller into a context, for Options.Other.
func (f *front) context(ctx context.Context, c *caller) context.Context {
	if c.principal != nil {
		ctx = access.With(ctx, c.principal)
	}
	if f.options.Audit != nil {
		c.request = new(audit.Request)
		ctx = audit.With(ctx, c.request)
	}
	if c.prefixed || f.options.DatabaseFromHeader || f.options.DatabasesJoined {
		ctx = access.WithPlace(ctx, access.Place{
			Path: string(c.database), Prefixed: c.prefixed,
			HeaderOnly: f.options.DatabaseFromHeader, Tenanted: c.tenanted, Tenant: string(c.tenant),
			Joined: f.options.DatabasesJoined,
		})
	}
	return ctx
}

// owner returns whom the memory of a request is charged to.
func (c *caller) owner(h head) budget.Owner {
	o := budget.Owner{Address: budget.AddressOf(h.from())}
	if c.principal != nil {
		o.Tenant = c.principal.Name()
	}
	return o
}

// admit takes the database out of a request's path and finds out who calls. Errors:
// refusal.ErrArgument, those of origin.Policy, and those of access.Authenticator.
func (f *front) admit(h head) (c caller, err error) {
	if c.sender, err = f.senderOf(h); err != nil {
		return c, err
	}
	open := isOpen(h) // of the path as it was sent
	if original := h.pathSent(); bytes.HasPrefix(original, []byte(databasePrefix)) {
		name, rest, err := splitDatabase(original)
		if err != nil {
			return c, err
		}
		h.setPath(rest)
		c.database, c.prefixed = name, true
	}
	if err := f.checkRead(h, c.sender); err != nil {
		return c, err
	}
	switch {
	case f.options.Authenticator == nil:
		c.principal = access.Anyone()
		err = f.confine(h, &c)
		return c, err
	case open:
		return c, nil
	}
	given := access.Credentials{
		Authorization: h.field(fasthttp.HeaderAuthorization), From: h.from(),
	}
	switch string(h.path()) {
	case pathWrite, pathQuery: // InfluxDB 1 takes both
		if user, password, ok := h.args(); ok {
			given.User, given.Password = user, password
		}
	}
	if own := h.conn(); own != nil {
		given.Certificate = own.certificate()
	}
	if c.principal, err = f.options.Authenticator.Authenticate(f.base, given); err != nil {
		return c, err
	}
	err = f.confine(h, &c)
	return c, err
}

// confine finds the one database of a request where only the header counts, and takes the
// caller's rights on others away for its time; those that change data, too, where a page asks
// that is let in for reading. Errors: refusal.ErrArgument, access.ErrDatabase.
func (f *front) confine(h head, c *caller) (err error) {
	if c.sender == origin.Any {
		defer func() { c.principal = access.ReadOnly(c.principal) }()
	}
	if !f.options.DatabaseFromHeader {
		return nil
	}
	for _, name := range h.fields(headerDatabase) {
		if len(name) == 0 {
			continue
		}
		if name, err = canonicalDatabase(name); err != nil {
			return err
		}
		if c.tenanted && !bytes.Equal(c.tenant, name) {
			return access.Disagreement(placeHeader, string(c.tenant), placeHeader, string(name))
		}
		c.tenant, c.tenanted = name, true
	}
	if only, single := access.Only(c.principal); !c.tenanted && single {
		c.tenant, c.tenanted = []byte(only), true
	}
	switch {
	case c.tenanted && f.joins(c.tenant):
		databases, err := access.Joined(string(c.tenant))
		if err != nil {
			return err
		}
		c.principal = access.Confine(c.principal, databases...)
	case c.tenanted:
		c.principal = access.Confine(c.principal, string(c.tenant))
	default:
		c.principal = access.WithoutDatabases(c.principal)
	}
	return nil
}

// joins reports whether a name is of several databases.
func (f *front) joins(name []byte) bool {
	return f.options.DatabasesJoined && bytes.Contains(name, []byte(access.DatabaseJoint))
}

// databasePrefix begins a path that names a database: /db/NAME/…
const databasePrefix = "/db/"

// splitDatabase takes the database out of a path as it was sent, of which the rest is the path
// in that database. The name is percent-decoded, once. A path that other servers on the way
// might have read in another way is refused. Errors: refusal.ErrArgument.
func splitDatabase(path []byte) (database, rest []byte, err error) {
	name, rest, found := bytes.Cut(path[len(databasePrefix):], []byte("/"))
	if !found || len(name) == 0 || bytes.HasPrefix(rest, []byte("/")) || bytes.Contains(rest, []byte("//")) {
		return nil, nil, fmt.Errorf("%w: expected /db/NAME/ and a path behind it", refusal.ErrArgument)
	}
	for part := range bytes.SplitSeq(rest, []byte("/")) {
		if decoded, ok := unescape(part); !ok || string(decoded) == "." || string(decoded) == ".." || bytes.ContainsAny(decoded, `/\`) {
			return nil, nil, fmt.Errorf("%w: the path has the part %q, which is not taken behind /db/", refusal.ErrArgument, part)
		}
	}
	database, ok := unescape(name)
	if !ok {
		return nil, nil, fmt.Errorf("%w: %q in the path is no percent-encoded name", refusal.ErrArgument, name)
	}
	if database, err = canonicalDatabase(database); err != nil {
		return nil, nil, err
	}
	return database, append([]byte("/"), rest...), nil
}

// unescape decodes percent signs once. The result is not part of text.
func unescape(text []byte) (decoded []byte, ok bool) {
	decoded = make([]byte, 0, len(text))
	for i := 0; i < len(text); i++ {
		if text[i] != '%' {
			decoded = append(decoded, text[i])
			continue
		}
		if i+2 >= len(text) {
			return nil, false
		}
		c, err := strconv.ParseUint(string(text[i+1:i+3]), 16, 8)
		if err != nil {
			return nil, false
		}
		decoded = append(decoded, byte(c))
		i += 2
	}
	return decoded, true
}

// canonicalDatabase checks a name that a client gave; "default" is the default database,
// which is empty. Errors: refusal.ErrArgument.
func canonicalDatabase(name []byte) ([]byte, error) {
	if string(name) == "default" {
		return nil, nil
	}
	if err := series.ValidateDatabase(name); err != nil {
		return nil, fmt.Errorf("%w: %w", refusal.ErrArgument, err)
	}
	return name, nil
}

// Places of a request that may name its database, as messages name them.
const (
	placeBucket = "the parameter bucket"
	placeDB     = "the parameter db"
	placePath   = "the path"
	placeHeader = "the header " + access.DatabaseHeader
	placeTenant = placeHeader + ", or the user's only database,"
)

// databaseChoice is the one database that all places of a request name.
type databaseChoice struct {
	name []byte
	by   string // empty: none has named one yet
}

// take takes what one place names. Errors: refusal.ErrArgument, access.ErrDatabase.
func (c *databaseChoice) take(by string, name []byte) error {
	name, err := canonicalDatabase(name)
	switch {
	case err != nil:
		return err
	case c.by == "":
		c.name, c.by = name, by
	case !bytes.Equal(c.name, name):
		return access.Disagreement(c.by, string(c.name), by, string(name))
	}
	return nil
}

// databaseOf returns the database of a write: what the dialect's parameter, the path and the
// header name, which must agree and be one. Errors: refusal.ErrArgument, access.ErrDatabase.
func (f *front) databaseOf(request *fasthttp.RequestCtx, d *dialect, c *caller) ([]byte, error) {
	var choice databaseChoice
	if f.options.DatabaseFromHeader {
		if !c.tenanted {
			return nil, access.ErrDatabaseHeader
		}
		choice.name, choice.by = c.tenant, placeTenant
	}
	for key, value := range request.QueryArgs().All() {
		by := ""
		switch {
		case string(key) == "db":
			by = placeDB
		case d.bucket && string(key) == "bucket":
			by = placeBucket
			value, _, _ = bytes.Cut(value, []byte("/")) // behind it is a retention policy
		default:
			continue
		}
		if err := choice.take(by, value); err != nil {
			return nil, err
		}
	}
	if c.prefixed {
		if err := choice.take(placePath, c.database); err != nil {
			return nil, err
		}
	}
	for _, name := range fieldsOf(request, headerDatabase) {
		if len(name) == 0 {
			continue
		}
		if err := choice.take(placeHeader, name); err != nil {
			return nil, err
		}
	}
	if f.joins(choice.name) {
		return nil, access.ErrDatabases
	}
	return choice.name, nil
}

// account returns the account of a database that the caller may write to. Errors:
// *access.DeniedError.
func (f *front) account(c *caller, database []byte) (*tenant.Account, error) {
	account := f.options.Meter.Find(database)
	if account != nil {
		return account, c.may(account.Name(), access.Write)
	}
	name := string(database)
	if err := c.may(name, access.Write); err != nil {
		return nil, err // a name that nobody may write to gets no account
	}
	return f.options.Meter.Open(name), nil
}

// targets returns where the ports write whose protocols name no database. Errors: ErrOptions.
func (o *Options) targets() (all [protocols]target, err error) {
	for p, name := range map[protocol]string{protocolPutTCP: o.PutDatabase, protocolLineTCP: o.LineDatabase, protocolGraphiteTCP: o.GraphiteDatabase, protocolUDP: o.UDP.Database} {
		database, err := canonicalDatabase([]byte(name))
		if err != nil {
			return all, fmt.Errorf("%w: %s: %w", ErrOptions, protocolNames[p], err)
		}
		all[p] = target{database, o.Meter.Open(string(database))}
	}
	return all, nil
}
