package access

import (
	"net/url"
	"slices"
	"testing"
)

// FuzzEachParameter: the values are those that net/url finds.
func FuzzEachParameter(f *testing.F) {
	for _, query := range []string{
		"", "db=a", "x=1&db=a&db=b", "%64b=a%20b", "d%62", "db", "&&db=&", "db=a;b", "db=%zz&db=c", "d+b=1", "db=a=b", "adb=1&dbb=2", "%zzdb=1", "=a&db=+",
	} {
		f.Add(query, "db")
	}
	f.Add("=a&b", "")
	f.Add("a+b=1&a%20b=2", "a b")
	f.Fuzz(func(t *testing.T, query, name string) {
		var got []string
		eachParameter(query, name, func(value string) { got = append(got, value) })
		if want := (&url.URL{RawQuery: query}).Query()[name]; !slices.Equal(got, want) {
			t.Errorf("%q: %q is %q, want %q", query, name, got, want)
		}
	})
}
