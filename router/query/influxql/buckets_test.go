package influxql

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/scan/scantest"
)

// someRights may read and administer some databases.
type someRights struct{ reads, admins []string }

func (someRights) Name() string { return "limited" }
func (l someRights) May(database string, right access.Right) bool {
	if right == access.Read && slices.Contains(l.reads, database) {
		return true
	}
	return slices.Contains(l.admins, database)
}

// callResource sends a request as somebody; nil: anyone.
func callResource(h http.Handler, who access.Principal, method, target, body string) (int, string) {
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	if who == nil {
		who = access.Anyone()
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r.WithContext(access.With(r.Context(), who)))
	return w.Code, w.Body.String()
}

// namesOf returns the names in an answer's list of buckets.
func namesOf(t *testing.T, body string) (names []string, next string) {
	t.Helper()
	var list struct {
		Buckets []struct{ Name, ID string }
		Links   struct{ Next string }
	}
	if err := json.Unmarshal([]byte(body), &list); err != nil {
		t.Fatal(err, body)
	}
	for _, b := range list.Buckets {
		names = append(names, b.Name)
		if len(b.ID) != 16 || b.ID != bucketID(access.Canonical(b.Name)) {
			t.Errorf("bucket %q has the id %q", b.Name, b.ID)
		}
	}
	return names, list.Links.Next
}

// Who may not read a database does not learn that there is one; who may only read one cannot drop it.
func TestBucketsByRights(t *testing.T) {
	m := stored(t, changeLines)
	h := New(Options{Source: m, Deleter: m, Clock: testClock, Retention: func(database string) (time.Duration, bool) {
		if database == "db0" {
			return 48 * time.Hour, true
		}
		return 0, true
	}})
	id := bucketID("db0")
	for _, c := range []struct {
		who            access.Principal
		method, target string
		body           string
		status         int
		want           string
	}{
		{someRights{}, "GET", pathBuckets, "", 200, `"buckets":[]`},
		{someRights{}, "GET", pathBuckets + "/" + id, "", 404, `"code":"not found"`},
		{someRights{}, "DELETE", pathBuckets + "/" + id, "", 404, "bucket not found"},
		{someRights{}, "POST", pathBuckets, `{"name":"db0"}`, 403, `"message":"user \"limited\" has no`},
		{someRights{}, "POST", pathBuckets, `{"name":"new"}`, 403, `"code":"forbidden"`},
		{someRights{reads: []string{"db0"}}, "GET", pathBuckets, "", 200, `"name":"db0","retentionRules":[{"type":"expire","everySeconds":172800}]`},
		{someRights{reads: []string{"db0"}}, "GET", pathBuckets + "/" + id, "", 200, `"id":"` + id + `"`},
		{someRights{reads: []string{"db0"}}, "DELETE", pathBuckets + "/" + id, "", 403, `"code":"forbidden"`},
		{someRights{reads: []string{"db0"}}, "PATCH", pathBuckets + "/" + id, "{}", 403, `"code":"forbidden"`},
		{someRights{reads: []string{"db0"}}, "POST", pathBuckets, `{"name":"db0"}`, 403, `"code":"forbidden"`},
		{someRights{admins: []string{"db0"}}, "POST", pathBuckets, `{"name":"db0"}`, 422, "already exists"},
		{someRights{admins: []string{"db0"}}, "PATCH", pathBuckets + "/" + id, "{}", 400, "databases-file"},
		{nil, "POST", pathBuckets, `{"name":"db1","retentionRules":[{"everySeconds":60}]}`, 400, "kept for ever by the rules"},
		{nil, "POST", pathBuckets, `{"name":"db1","retentionRules":[{"everySeconds":36028797018963968}]}`, 400, "not for 36028797018963968 seconds"}, // 2^55, whose nanoseconds are 0 in 64 bits
		{nil, "POST", pathBuckets, `{"name":"db1","retentionRules":[{"everySeconds":-1}]}`, 400, "kept for ever by the rules"},
		{nil, "POST", pathBuckets, `{"name":"db1","retentionRules":[{"everySeconds":0}]}`, 201, `"name":"db1"`},
		{nil, "POST", pathBuckets, `{"name":""}`, 400, "cannot be empty"},
		{nil, "POST", pathBuckets, `{"name":"default"}`, 422, "already exists"},
		{nil, "POST", pathBuckets, `{"name":"a/b"}`, 400, "names cannot have"},
		{nil, "POST", pathBuckets, `name`, 400, "no JSON"},
		{nil, "POST", pathBuckets, `{"name":"` + strings.Repeat("x", bucketsBytesMax) + `"}`, 413, "request too large"},
		{nil, "GET", pathBuckets + "?limit=0", "", 400, "limit"},
		{nil, "GET", pathBuckets + "?limit=101", "", 400, "limit"},
		{nil, "GET", pathBuckets + "?offset=-1", "", 400, "offset"},
		{nil, "DELETE", pathBuckets + "/" + bucketID(""), "", 403, "cannot be dropped"},
		{nil, "GET", pathOrgs + "?org=ours", "", 200, `"name":"ours"`},
		{nil, "GET", pathOrgs + "?orgID=0000000000000002", "", 200, `"orgs":[]`},
		{nil, "GET", pathOrgs + "/" + organizationID, "", 200, `"name":"tickmesh"`},
		{nil, "GET", pathOrgs + "/2", "", 404, "organization not found"},
		{nil, "POST", pathOrgs, `{"name":"x"}`, 422, "every name means it"},
		{nil, "POST", pathOrgs, `{}`, 400, "cannot be empty"},
		{nil, "DELETE", pathOrgs + "/" + organizationID, "", 403, "delete its buckets"},
		{nil, "DELETE", pathOrgs + "/2", "", 404, "organization not found"},
	} {
		if status, body := callResource(h, c.who, c.method, c.target, c.body); status != c.status || !strings.Contains(body, c.want) {
			t.Errorf("%v %s %s %.60s: %d %.200s, want %d %s", c.who, c.method, c.target, c.body, status, body, c.status, c.want)
		}
	}
	if got := left(t, m); len(got) != 4 {
		t.Errorf("%q are left", got)
	}
	if status, body := callResource(h, someRights{admins: []string{"db0"}}, "DELETE", pathBuckets+"/"+id, ""); status != 204 || body != "" {
		t.Errorf("%d %s", status, body)
	}
	if got := left(t, m); len(got) != 0 {
		t.Errorf("%q are left", got)
	}
}

// Pages, by offset and by the last id, have each bucket once.
func TestPagesOfBuckets(t *testing.T) {
	var all []string
	for i := range 25 {
		all = append(all, fmt.Sprintf("db%02d", i))
	}
	h := New(Options{Source: withDatabases{scantest.NewMemory(), all}})
	want := append([]string{"default"}, all...)
	var got []string
	for target := pathBuckets + "?limit=7"; target != ""; {
		status, body := callResource(h, nil, "GET", target, "")
		names, next := namesOf(t, body)
		if status != 200 || len(names) > 7 {
			t.Fatal(status, body)
		}
		got, target = append(got, names...), next
	}
	if !slices.Equal(got, want) {
		t.Errorf("by links: %q", got)
	}
	got = nil
	for after := ""; ; {
		_, body := callResource(h, nil, "GET", pathBuckets+"?after="+after, "")
		names, next := namesOf(t, body)
		got = append(got, names...)
		if next == "" {
			break
		}
		after = bucketID(access.Canonical(names[len(names)-1]))
	}
	if !slices.Equal(got, want) {
		t.Errorf("by ids: %q", got)
	}
	_, body := callResource(h, nil, "GET", pathBuckets+"?name=db03", "")
	if names, next := namesOf(t, body); !slices.Equal(names, []string{"db03"}) || next != "" {
		t.Error(body)
	}
}

// withDatabases is a source with databases of some names.
type withDatabases struct {
	scan.Source
	names []string
}

func (w withDatabases) Databases(context.Context) ([]string, error) { return w.names, nil }

// TestLinksOfLists: links have what lists know, and nothing else that a request has.
func TestLinksOfLists(t *testing.T) {
	h := New(Options{Source: stored(t, "")})
	for target, want := range map[string]string{
		"/api/v2/buckets?limit=5&db=hidden&bucket=hidden": `"self":"/api/v2/buckets?limit=5"`,
		"/api/v2/buckets?db=hidden":                       `"self":"/api/v2/buckets"`,
		"/api/v2/orgs?db=hidden&org=o":                    `"self":"/api/v2/orgs?org=o"`,
	} {
		if code, body := callResource(h, nil, http.MethodGet, target, ""); code != http.StatusOK || !strings.Contains(body, want) || strings.Contains(body, "hidden") {
			t.Errorf("%s: %d %s", target, code, body)
		}
	}
}
