package access

import (
	"context"
	"errors"
	"net/http/httptest"
	"net/url"
	"testing"
)

type reader struct{}

func (reader) Name() string { return "ann" }
func (reader) May(database string, right Right) bool {
	return database == "metrics" && right <= Read
}

func TestCheck(t *testing.T) {
	ctx := context.Background()
	if err := Check(ctx, "any", Admin); err != nil {
		t.Fatalf("with authentication off: %v", err)
	}
	if Known(ctx) {
		t.Error("nobody is known")
	}
	ctx = With(ctx, reader{})
	if !Known(ctx) {
		t.Error("not known")
	}
	if err := Check(ctx, "metrics", Read); err != nil {
		t.Fatal(err)
	}
	var denied *DeniedError
	if err := Check(ctx, "", Write); !errors.As(err, &denied) || denied.Principal != "ann" ||
		denied.Error() != `user "ann" has no write right on database "default": ask an administrator for it` {
		t.Fatal(err)
	}
}

func TestDatabase(t *testing.T) {
	for _, c := range []struct {
		target, header, path string
		form                 url.Values
		want                 string
	}{
		{target: "/q"},
		{target: "/q", header: "tenant", want: "tenant"},
		{target: "/q", header: "tenant", path: "prefix", want: "prefix"},
		{target: "/q?db=url", header: "tenant", path: "prefix", want: "url"},
		{target: "/q?db=url", form: url.Values{"db": {"form"}}, want: "form"},
		{target: "/q?db=url", form: url.Values{"q": {"x"}}, want: "url"},
		{target: "/q?db=default", header: "tenant"},
		{target: "/q?db=", header: "tenant"},
		{target: "/q", path: "default"},
	} {
		r := httptest.NewRequest("GET", c.target, nil)
		if c.header != "" {
			r.Header.Set(DatabaseHeader, c.header)
		}
		if c.path != "" {
			r = r.WithContext(WithDatabase(r.Context(), c.path))
		}
		if got := Database(r, c.form); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
	if Display(Canonical("default")) != "default" || Display("a") != "a" {
		t.Error("names for people")
	}
}
