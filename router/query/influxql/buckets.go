package influxql

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/api/endpoint"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/router/query/admission"
	"github.com/tickmesh/tickmesh/router/query/shell"
)

// Buckets and organizations of InfluxDB 2's API. A bucket is a database: its id is made of its name, so that all routers
// give it the same one, and nothing is kept beside the database. There is one organization, of which writes and queries
// never asked the name, so that every name means it.

const (
	pathBuckets = "/api/v2/buckets"
	pathOrgs    = "/api/v2/orgs"

	organizationID   = "0000000000000001"
	organizationName = "tickmesh" // where a client names none

	bucketsBytesMax   = 64 << 10 // of a body
	bucketsListed     = 20       // InfluxDB's own
	bucketsListedMost = 100
	headerPlatform    = "X-Platform-Error-Code"
)

// addResources routes both.
func (h *handler) addResources(m *endpoint.Mux) {
	for pattern, serve := range map[string]func(*resourceCall) error{
		"GET " + pathBuckets: listBuckets, "POST " + pathBuckets: createBucket,
		"GET " + pathBuckets + "/{id}": showBucket, "DELETE " + pathBuckets + "/{id}": dropBucket, "PATCH " + pathBuckets + "/{id}": changeBucket,
		"GET " + pathOrgs: listOrganizations, "POST " + pathOrgs: createOrganization,
		"GET " + pathOrgs + "/{id}": showOrganization, "DELETE " + pathOrgs + "/{id}": dropOrganization,
	} {
		m.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { h.serveResource(w, r, serve) })
	}
}

// resourceCall is one request.
type resourceCall struct {
	*handler
	w    http.ResponseWriter
	r    *http.Request
	form url.Values // of the URL
}

func (h *handler) serveResource(w http.ResponseWriter, r *http.Request, serve func(*resourceCall) error) {
	ended, status := h.shell.Begin(), http.StatusInternalServerError // where it panics
	defer func() { ended("", status) }()
	w.Header().Set(headerVersion, version)
	w.Header().Set(headerBuild, "OSS")
	c := &resourceCall{handler: h, w: w, r: r, form: r.URL.Query()}
	query := admission.Query{Database: access.Everything, Text: r.Method + " " + r.URL.Path}
	if err := h.shell.Run(r.Context(), query, func(ctx context.Context, _ *admission.Entry) error {
		c.r = r.WithContext(ctx)
		return serve(c)
	}); err != nil {
		status = c.fail(err)
		return
	}
	status = http.StatusOK
}

// fail answers in the error shape of InfluxDB 2, and returns the status.
func (c *resourceCall) fail(err error) int {
	e := toRequestError(c.r.Context(), err)
	if denied := (*access.DeniedError)(nil); errors.As(err, &denied) {
		e.message = denied.Error()
	}
	if e.retryAfter {
		shell.RetryLater(c.w.Header())
	}
	code := map[int]string{
		http.StatusBadRequest: "invalid", http.StatusNotFound: "not found", http.StatusForbidden: "forbidden", http.StatusUnprocessableEntity: "conflict",
		http.StatusRequestEntityTooLarge: "request too large", http.StatusServiceUnavailable: "unavailable",
	}[e.status]
	if code == "" {
		code = "internal error"
	}
	c.w.Header().Set(headerPlatform, code)
	_ = c.answer(e.status, map[string]string{"code": code, "message": e.message})
	return e.status
}

func (c *resourceCall) answer(status int, body any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	c.w.Header().Set("Content-Type", "application/json; charset=utf-8")
	c.w.WriteHeader(status)
	_, _ = c.w.Write(append(text, '\n'))
	return nil
}

// read reads the body of a request.
func (c *resourceCall) read(into any) error {
	err := json.NewDecoder(http.MaxBytesReader(c.w, c.r.Body, bucketsBytesMax)).Decode(into)
	if tooLong := (*http.MaxBytesError)(nil); errors.As(err, &tooLong) {
		return &requestError{status: http.StatusRequestEntityTooLarge, message: shell.BodyText(err)}
	}
	if err != nil {
		return invalid("the body is no JSON of a bucket or an organization: %s", err)
	}
	return nil
}

// bucket is a database as InfluxDB 2 describes it.
type bucket struct {
	ID             string            `json:"id"`
	OrgID          string            `json:"orgID"`
	Type           string            `json:"type"`
	Name           string            `json:"name"`
	RetentionRules []retentionRule   `json:"retentionRules"`
	Labels         []struct{}        `json:"labels"`
	Links          map[string]string `json:"links"`
}

type retentionRule struct {
	Type         string `json:"type"`
	EverySeconds int64  `json:"everySeconds"`
}

// bucketID returns the id of a database. It has the form of InfluxDB's.
func bucketID(database string) string {
	sum := sha256.Sum256([]byte("bucket " + database))
	return hex.EncodeToString(sum[:8])
}

func (c *resourceCall) bucketOf(database string) bucket {
	id := bucketID(database)
	b := bucket{
		ID: id, OrgID: organizationID, Type: "user", Name: access.Display(database), RetentionRules: []retentionRule{}, Labels: []struct{}{},
		Links: map[string]string{"self": pathBuckets + "/" + id, "org": pathOrgs + "/" + organizationID, "write": "/api/v2/write?bucket=" + url.QueryEscape(access.Display(database))},
	}
	if kept := c.retentionOf(database); kept > 0 {
		b.RetentionRules = append(b.RetentionRules, retentionRule{"expire", int64(kept / time.Second)})
	}
	return b
}

// retentionOf returns how long samples of a database are kept; 0: for ever.
func (c *resourceCall) retentionOf(database string) time.Duration {
	if c.retention == nil {
		return 0
	}
	kept, _ := c.retention(database)
	return kept
}

// readable returns the databases that the caller may read, in order.
func (c *resourceCall) readable() ([]string, error) {
	names, err := c.databases.List(c.r.Context())
	if err != nil {
		return nil, err
	}
	if !slices.Contains(names, "") {
		names = append([]string{""}, names...)
	}
	who := access.Of(c.r.Context())
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !who.May(name, access.Read) }), nil
}

// named returns the database that the path means by its id, of those that the caller may read.
func (c *resourceCall) named() (string, error) {
	names, err := c.readable()
	if err != nil {
		return "", err
	}
	for _, name := range names {
		if bucketID(name) == c.r.PathValue("id") {
			return name, nil
		}
	}
	return "", &requestError{status: http.StatusNotFound, message: "bucket not found"}
}

// number returns a parameter.
func (c *resourceCall) number(name string, least, most int) (int, error) {
	n, err := strconv.Atoi(c.form.Get(name))
	if err != nil || n < least || n > most {
		return 0, invalid("%s is %q, and not a number from %d to %d", name, c.form.Get(name), least, most)
	}
	return n, nil
}

// link returns the path of a list with the parameters of the request that lists have. What else a request has, such as names of
// databases in places where they mean nothing, is not repeated.
func (c *resourceCall) link(path string) string {
	kept := url.Values{}
	for _, name := range []string{"after", "id", "limit", "name", "offset", "org", "orgID"} {
		if c.form.Has(name) {
			kept.Set(name, c.form.Get(name))
		}
	}
	if len(kept) == 0 {
		return path
	}
	return path + "?" + kept.Encode()
}

func listBuckets(c *resourceCall) error {
	names, err := c.readable()
	if err != nil {
		return err
	}
	limit, offset := bucketsListed, 0
	if c.form.Has("limit") {
		if limit, err = c.number("limit", 1, bucketsListedMost); err != nil {
			return err
		}
	}
	if c.form.Has("offset") {
		if offset, err = c.number("offset", 0, 1<<30); err != nil {
			return err
		}
	}
	names = slices.DeleteFunc(names, func(database string) bool {
		return c.form.Has("name") && c.form.Get("name") != access.Display(database) || c.form.Has("id") && c.form.Get("id") != bucketID(database)
	})
	if after := c.form.Get("after"); after != "" {
		at := slices.IndexFunc(names, func(database string) bool { return bucketID(database) == after })
		names = names[at+1:] // all, if there is none
	}
	names = names[min(offset, len(names)):]
	links := map[string]string{"self": c.link(pathBuckets)}
	if len(names) > limit {
		names = names[:limit]
		c.form.Set("offset", strconv.Itoa(offset+limit))
		links["next"] = c.link(pathBuckets) // clients ask whether there is one
	}
	all := []bucket{}
	for _, database := range names {
		all = append(all, c.bucketOf(database))
	}
	return c.answer(http.StatusOK, map[string]any{"buckets": all, "links": links})
}

func showBucket(c *resourceCall) error {
	database, err := c.named()
	if err != nil {
		return err
	}
	return c.answer(http.StatusOK, c.bucketOf(database))
}

func createBucket(c *resourceCall) error {
	var b struct {
		Name           string          `json:"name"`
		RetentionRules []retentionRule `json:"retentionRules"`
	}
	if err := c.read(&b); err != nil {
		return err
	}
	if b.Name == "" {
		return invalid("bucket name cannot be empty")
	}
	database := access.Canonical(b.Name)
	if err := series.ValidateDatabase(database); err != nil {
		return invalid("%s", err)
	}
	if err := access.Check(c.r.Context(), database, access.Admin); err != nil {
		return err
	}
	kept := c.retentionOf(database)
	for _, rule := range b.RetentionRules {
		if rule.EverySeconds != 0 && rule.EverySeconds != int64(kept/time.Second) {
			return invalid("bucket %q is kept for %s by the rules of the server, not for %d seconds: leave retentionRules out, or set its retention in the file of --databases-file first", b.Name, keptFor(kept), rule.EverySeconds)
		}
	}
	names, err := c.databases.List(c.r.Context())
	if err != nil {
		return err
	}
	if database == "" || slices.Contains(names, database) {
		return &requestError{status: http.StatusUnprocessableEntity, message: fmt.Sprintf("bucket with name %s already exists", b.Name)}
	}
	if err := c.databases.Create(c.r.Context(), database); err != nil {
		return err
	}
	return c.answer(http.StatusCreated, c.bucketOf(database))
}

func keptFor(d time.Duration) string {
	if d == 0 {
		return "ever"
	}
	return d.String()
}

func dropBucket(c *resourceCall) error {
	database, err := c.named()
	if err != nil {
		return err
	}
	if err := access.Check(c.r.Context(), database, access.Admin); err != nil {
		return err
	}
	if database == "" {
		return &requestError{status: http.StatusForbidden, message: "the default database cannot be dropped: drop its measurements"}
	}
	if err := c.dropDatabase(c.r.Context(), database); err != nil {
		return err
	}
	c.w.WriteHeader(http.StatusNoContent)
	return nil
}

// changeBucket refuses what clients can change of InfluxDB's.
func changeBucket(c *resourceCall) error {
	database, err := c.named()
	if err != nil {
		return err
	}
	if err := access.Check(c.r.Context(), database, access.Admin); err != nil {
		return err
	}
	return invalid("buckets cannot be changed here: retention is set in the file of --databases-file, and there are neither other names nor descriptions")
}

type organization struct {
	ID     string            `json:"id"`
	Name   string            `json:"name"`
	Status string            `json:"status"`
	Links  map[string]string `json:"links"`
}

func organizationOf(name string) organization {
	if name == "" {
		name = organizationName
	}
	self := pathOrgs + "/" + organizationID
	return organization{ID: organizationID, Name: name, Status: "active", Links: map[string]string{"self": self, "buckets": pathBuckets + "?orgID=" + organizationID}}
}

func listOrganizations(c *resourceCall) error {
	all := []organization{organizationOf(c.form.Get("org"))}
	if id := c.form.Get("orgID"); id != "" && id != organizationID || c.form.Has("offset") && c.form.Get("offset") != "0" {
		all = all[:0]
	}
	return c.answer(http.StatusOK, map[string]any{"orgs": all, "links": map[string]string{"self": c.link(pathOrgs)}})
}

func (c *resourceCall) checkOrganization() error {
	if c.r.PathValue("id") != organizationID {
		return &requestError{status: http.StatusNotFound, message: "organization not found"}
	}
	return nil
}

func showOrganization(c *resourceCall) error {
	if err := c.checkOrganization(); err != nil {
		return err
	}
	return c.answer(http.StatusOK, organizationOf(""))
}

func createOrganization(c *resourceCall) error {
	var o struct {
		Name string `json:"name"`
	}
	if err := c.read(&o); err != nil {
		return err
	}
	if o.Name == "" {
		return invalid("organization name cannot be empty")
	}
	return &requestError{status: http.StatusUnprocessableEntity, message: fmt.Sprintf("organization with name %s already exists: there is one, and every name means it; "+
		"databases keep tenants apart, and users have rights on them", o.Name)}
}

func dropOrganization(c *resourceCall) error {
	if err := c.checkOrganization(); err != nil {
		return err
	}
	return &requestError{status: http.StatusForbidden, message: "the one organization cannot be deleted: delete its buckets"}
}
