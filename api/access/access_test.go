package access

import (
	"context"
	"errors"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/tickmesh/tickmesh/api/audit"
)

type reader struct{}

func (reader) Name() string { return "ann" }
func (reader) May(database string, right Right) bool {
	return database == "metrics" && right <= Read
}

func TestCheck(t *testing.T) {
	ctx := context.Background()
	var denied *DeniedError
	if err := Check(ctx, "any", Read); !errors.As(err, &denied) || Of(ctx).May("", Read) || Of(ctx).May(Everything, Read) {
		t.Fatalf("nobody may read: %v", err)
	}
	if anyone := With(ctx, Anyone()); Check(anyone, "any", Admin) != nil || Known(ctx) || Known(anyone) {
		t.Fatal("with authentication off")
	}
	ctx = With(ctx, reader{})
	if !Known(ctx) {
		t.Error("not known")
	}
	if err := Check(ctx, "metrics", Read); err != nil {
		t.Fatal(err)
	}
	if err := Check(ctx, "", Write); !errors.As(err, &denied) || denied.Principal != "ann" ||
		denied.Error() != `user "ann" has no write right on database "default": ask an administrator for it` {
		t.Fatal(err)
	}
}

func TestDatabase(t *testing.T) {
	for _, c := range []struct {
		target, header string
		place          Place
		form           url.Values
		want           string
		refused        bool
	}{
		{target: "/q"},
		{target: "/q", header: "tenant", want: "tenant"},
		{target: "/q", place: Place{Path: "prefix", Prefixed: true}, want: "prefix"},
		{target: "/q?db=url", want: "url"},
		{target: "/q?db=url", form: url.Values{"q": {"x"}}, want: "url"},
		{target: "/q?db=a", header: "a", place: Place{Path: "a", Prefixed: true}, form: url.Values{"db": {"a"}}, want: "a"},
		{target: "/q?db=default", place: Place{Prefixed: true}, form: url.Values{"db": {""}}},
		{target: "/q?db=url", header: "tenant", refused: true},
		{target: "/q?db=a&db=b", refused: true},
		{target: "/q?db=a", form: url.Values{"db": {"b"}}, refused: true},
		{target: "/q?db=a", place: Place{Path: "b", Prefixed: true}, refused: true},
		{target: "/q", header: "a", place: Place{Path: "b", Prefixed: true}, refused: true},
		{target: "/q?db=default", header: "tenant", refused: true},
		{target: "/q?db=", header: "tenant", refused: true},
		{target: "/q", place: Place{HeaderOnly: true}, refused: true},
		{target: "/q?db=a", place: Place{HeaderOnly: true}, refused: true},
		{target: "/q", header: "a", place: Place{HeaderOnly: true, Tenanted: true, Tenant: "a"}, want: "a"},
		{target: "/q?db=a", place: Place{HeaderOnly: true, Tenanted: true, Tenant: "a"}, want: "a"},
		{target: "/q?db=b", place: Place{HeaderOnly: true, Tenanted: true, Tenant: "a"}, refused: true},
	} {
		r := httptest.NewRequest("GET", c.target, nil)
		if c.header != "" {
			r.Header.Set(DatabaseHeader, c.header)
		}
		if c.place != (Place{}) {
			r = r.WithContext(WithPlace(r.Context(), c.place))
		}
		got, err := Database(r, c.form)
		if got != c.want && !c.refused || errors.Is(err, ErrDatabase) != c.refused {
			t.Errorf("%+v: %q, %v", c, got, err)
		}
	}
	if Display(Canonical("default")) != "default" || Display("a") != "a" {
		t.Error("names for people")
	}
}

// A confined principal has no right but its own on the one database.
func TestConfine(t *testing.T) {
	one := Confine(Anyone(), "a")
	if !one.May("a", Admin) || one.May("b", Read) || one.May("", Read) || one.May(Everything, Read) {
		t.Error("confined to a database")
	}
	if p := Confine(reader{}, "a"); p.May("a", Read) || p.May("metrics", Read) || p.Name() != "ann" {
		t.Error("confining gives rights")
	}
	if p := WithoutDatabases(Anyone()); p.May("", Read) || p.May("a", Read) || !p.May(Everything, Admin) {
		t.Error("no database")
	}
	ctx := With(context.Background(), one)
	var denied *DeniedError
	if err := Check(ctx, "b", Read); !errors.As(err, &denied) || !denied.Confined || Known(ctx) {
		t.Errorf("%v", err)
	}
	if name, ok := Only(one); name != "a" || !ok {
		t.Error("it has one database")
	}
}

// TestDatabasesAudited: the log of deeds has all databases of a request for several.
func TestDatabasesAudited(t *testing.T) {
	var written strings.Builder
	log, err := audit.Open(audit.Options{Path: audit.Stderr, Stderr: &written, All: true})
	if err != nil {
		t.Fatal(err)
	}
	request := new(audit.Request)
	r := httptest.NewRequest("GET", "/x", nil)
	r.Header.Set(DatabaseHeader, "b|default|a|b")
	r = r.WithContext(WithPlace(audit.With(r.Context(), request), Place{Joined: true}))
	all, err := Databases(r, nil)
	if err != nil || !slices.Equal(all, []string{"", "a", "b"}) {
		t.Fatal(all, err)
	}
	log.Finish(request, audit.Event{})
	if err := log.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := written.String(); !strings.Contains(got, `"database":"default|a|b"`) {
		t.Error(got)
	}
}
